// Signals: values that tell the functions that read them when they change.

let current = null;
const due = new Set();

/** A value that can be watched; `held` reads it without watching. */
class Signal {
	watchers = new Set();

	constructor(value) {
		this.held = value;
	}

	get value() {
		if (current) {
			this.watchers.add(current);
			current.sources.add(this.watchers);
		}
		return this.held;
	}

	set value(next) {
		if (Object.is(next, this.held)) return;
		this.held = next;
		if (!this.watchers.size) return;
		if (!due.size) requestAnimationFrame(flush);
		for (const effect of this.watchers) due.add(effect);
	}
}

export const signal = (/** @type {any} */ value) => new Signal(value);

// Runs what is due, once a frame; a hidden tab draws when it is seen again.
function flush() {
	const now = [...due];
	due.clear();
	for (const effect of now) if (!effect.ended) effect.run();
}

/** Runs `work` now and whenever a signal that it read changes; gives what ends it. */
export function effect(work) {
	const own = { sources: new Set(), ended: false, run };
	const forget = () => {
		for (const watchers of own.sources) watchers.delete(own);
		own.sources.clear();
	};
	function run() {
		forget();
		const outer = current;
		current = own;
		try {
			work();
		} finally {
			current = outer;
		}
	}
	run();
	return () => {
		own.ended = true;
		forget();
	};
}
