// The flows that cannot pass yet, and why. A run names them, does not run them, and fails because of them unless it is
// told --partial. `--try` runs them: one that passes comes off this list.

export const NOT_BUILT = {};
