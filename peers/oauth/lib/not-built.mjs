// The flows that cannot pass yet, and why. A run names them, does not run them, and fails because of them unless it is
// told --partial. `--try` runs them: one that passes comes off this list.

export const NOT_BUILT = {
  'code: a bridge that meets a 401 signs in and calls': 'the client cannot sign in yet',
  'refresh: each renewal rotates, and nobody signs in again': 'the client cannot sign in yet',
  'step-up: a call that needs more scope leads to one wider authorization': 'the client cannot sign in yet',
  'CIMD: the client id is the URL of its document, and nothing is registered': 'the client cannot sign in yet',
  'DCR: one registration serves all later sign-ins': 'the client cannot sign in yet',
  'pre-registered: a secret by Basic': 'the client cannot sign in yet',
  'pre-registered: a secret in the body': 'the client cannot sign in yet',
  'pre-registered: private_key_jwt': 'the client cannot sign in yet',
  'client credentials: no person, no registration, no refresh token': 'the client cannot sign in yet',
  'device: the URL is printed, and the sign-in ends when the person is done': 'the client cannot sign in yet',
  'EMA: one sign-in at the identity provider, no browser at the authorization server': 'the extension is not built',
  'exchange: the gateway gets a token of its own for the upstream, for the same user': 'the extension is not built',
  'DPoP: proofs with nonces at both servers': 'the extension is not built',
  'revocation: signing out revokes both tokens and forgets them': 'the client cannot sign in yet',
  'expiry: a token that is over is renewed before the server sees it': 'the client cannot sign in yet',
  'forgotten: an authorization server that lost its clients gets one new registration': 'the client cannot sign in yet',
  'deny: a person who refuses ends the login with the reason, and nothing is asked again': 'the client cannot sign in yet',
  'Chromium: a real browser signs in, and the page at the end needs no script': 'the client cannot sign in yet',
  'ten bridges at once: one tab, one registration, one sign-in': 'the client cannot sign in yet, in one process or in several',
  'ten bridges at once, the first killed: the sign-in still completes in its tab': 'the client cannot sign in yet, in one process or in several',
  'ten processes renew at once: one token request a round, none refused': 'the client cannot sign in yet, in one process or in several',
};
