// The flows that cannot pass yet, and why. A run names them, does not run them, and fails because of them unless it is
// told --partial. `--try` runs them: one that passes comes off this list.

export const NOT_BUILT = {
  'EMA: one sign-in at the identity provider, no browser at the authorization server': 'the sign-in at the identity provider is not built; its ID token has to be given',
  'exchange: the gateway gets a token of its own for the upstream, for the same user': 'the gateway exchanges no tokens yet',
};
