// The views, by their addresses, and what a page must say that shows one.

/** What is done there before it is looked at is `then`, and `after` undoes it. @type {Record<string, { at: string, says: string, then?: (page: any) => Promise<void>, after?: (page: any) => Promise<void> }>} */
export const VIEWS = {
  home: { at: '#/', says: 'Needs attention' },
  servers: { at: '#/servers', says: 'broken' },
  server: { at: '#/servers/demo', says: 'What it is' },
  broken: { at: '#/servers/broken', says: 'failed' },
  tools: { at: '#/tools', says: 'demo__echo' },
  tool: { at: '#/tools?name=demo__json_schema_2020_12_tool', says: 'Try it' },
  tried: { at: '#/tools?name=demo__add', says: 'Try it', then: async (page) => {
    await page.getByLabel('The same as JSON').fill('{"a": 1, "b": 2}');
    await page.getByRole('button', { name: 'Call with' }).click();
    await page.getByText('done').first().waitFor();
  } },
  prompts: { at: '#/tools?kind=prompts&name=demo__test_prompt_with_arguments', says: 'Try it' },
  resources: { at: '#/tools?kind=resources', says: 'test://' },
  hostile: { at: '#/tools?name=hostile__markup', says: 'has hidden characters' },
  calls: { at: '#/calls', says: 'Outcome' },
  call: { at: '#/calls?name=add', says: 'Outcome', then: async (page) => {
    await page.locator('main').getByRole('link', { name: 'add', exact: true }).first().click();
    await page.getByText('Where the time went').waitFor();
  } },
  captured: { at: '#/calls?name=add', says: 'Outcome', then: async (page) => {
    await page.getByText('Keep requests and answers for a while').click();
    await page.locator('details').getByLabel('Server').selectOption('demo');
    await page.getByRole('button', { name: 'Keep them for 15 minutes' }).click();
    await page.locator('.banner').getByText('demo').first().waitFor();
  }, after: (page) => page.locator('details').getByRole('button', { name: 'Stop' }).first().click() },
  sessions: { at: '#/sessions', says: 'sessions' },
  charts: { at: '#/charts', says: 'Calls a minute' },
  safety: { at: '#/safety', says: 'hidden characters' },
  connect: { at: '#/connect', says: 'Claude Code' },
  config: { at: '#/config', says: 'What would change' },
  add: { at: '#/add', says: 'JSON for any client' },
  trial: { at: '#/add', says: 'JSON for any client', then: async (page) => {
    await page.getByLabel('JSON for any client').fill('{"mcpServers": {"files": {"command": "no-such-program", "args": ["--root", "/data"]}}}');
    await page.getByRole('button', { name: 'Look at the change' }).last().click();
    await page.getByRole('button', { name: 'Try it first' }).click();
    await page.getByRole('dialog').getByText('command not found').first().waitFor();
  } },
  keys: { at: '#/keys', says: 'ada' },
  accounts: { at: '#/accounts', says: 'sign-in' },
  menu: { at: '#/', says: 'Needs attention', then: async (page) => {
    const menu = page.getByRole('button', { name: 'Menu' });
    if (await menu.isVisible()) await menu.click();
  } },
  help: { at: '#/help', says: 'Everywhere' },
};

/** The part of `me.features` that a view needs. */
const NEEDS = { connect: 'snippets', config: 'config', add: 'config', trial: 'trial', captured: 'capture', keys: 'keys', accounts: 'accounts' };

/** The views that this gateway has. */
export async function offered(page) {
  const { features } = await page.evaluate(() => fetch('/console/api/me').then((answer) => answer.json()));
  return Object.entries(VIEWS).filter(([name]) => !NEEDS[name] || features.includes(NEEDS[name]));
}
