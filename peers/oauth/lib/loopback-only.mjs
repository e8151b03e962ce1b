// The test bed talks to this machine alone.

/** Whether a URL names this machine by a loopback address or as `localhost`. */
export const isLoopback = ({ hostname }) => hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
