// The last hour: of the gateway, or of one server.

import { get, has } from './api.js';
import { both, process } from './charts.js';
import { fill, h } from './dom.js';
import { filter, query, refine } from './router.js';
import { complain, pickServer } from './table.js';
import { by, head } from './ui.js';

/** @param {View} view */
export default async function charts(view) {
	const box = h('div.cols.charts');
	const chosen = () => filter('server');
	const draw = async () => {
		const of = chosen() ? await get(`charts${query({ server: chosen() })}`) : (await get('overview')).charts;
		fill(box, both(of), chosen() ? null : process(of));
	};
	await draw();
	const timer = setInterval(() => document.hidden || draw().catch(() => {}), 15_000);
	view.leave(() => clearInterval(timer));
	return h('div.view', null, head('Charts', 'The last hour, a point a minute, kept in memory. For more, let Prometheus read /metrics.', has('charts') ? pickServer(chosen(), (server) => {
		refine({ server });
		draw().catch(complain);
	}) : null), box, by('curl URL/metrics'));
}
