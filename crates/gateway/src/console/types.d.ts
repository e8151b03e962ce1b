// Types that the modules of the page share; for the checker alone, the gateway does not serve this file.

/** What an answer, a message or a schema says. */
type Json = Record<string, any>;

/** What an element is made of; lists are flattened, nothing and false are left out. */
type Child = Node | string | number | false | null | undefined | Child[];

/** Attributes, properties and listeners; no text, list or node is one. */
type Props = { [name: string]: any; nodeType?: never; length?: never };

/** Makes an element: a tag with classes, props or null, and children. */
type Make = <K extends keyof HTMLElementTagNameMap>(tag: K | `${K}.${string}`, props?: Props | null, ...children: Child[]) => HTMLElementTagNameMap[K];

// What the checker need not doubt: the page makes these elements itself.
interface ParentNode {
  querySelector(selectors: string): any;
}
interface Element {
  itemKey?: string;
  row?: Json;
  focus(options?: FocusOptions): void;
}
interface EventTarget {
  blur(): void;
  closest(selectors: string): any;
}

/** What a view gets: the rest of its path, the filters, and how it is told that it is left. */
interface View {
  rest: string[];
  query: URLSearchParams;
  leave: (work: () => void) => void;
  watch: (work: () => void) => void;
}

/** A field of a form. `get` gives undefined for what is left out. */
interface Field {
  node: HTMLElement;
  get: () => unknown;
  set: (value: unknown) => void;
  check: () => Problem[];
}

/** What is wrong with a field, and where the focus goes to mend it. */
interface Problem {
  text: string;
  label: string;
  at: HTMLElement;
}

/** A column of a table; `by` is what it is sorted by, `blank` leaves the cell out on narrow screens. */
interface Column {
  label: string;
  cell: (row: Json) => Child;
  num?: boolean;
  by?: (row: Json) => string | number;
  blank?: (row: Json) => unknown;
}

/** What hears of a request under way. */
interface Listener {
  note?: (message: Json) => void;
  question?: (method: string, params: Json) => Promise<Json>;
  signal?: AbortSignal;
  schema?: Json;
  meta?: Json;
}

