// What a peer genuinely cannot do, with the reason. Nothing else is left out.
// An entry holds for every member it names; `check` absent means the whole cell.

export const GAPS = [
  {
    peer: 'ts1',
    era: 'modern',
    reason: 'the 1.x SDK ends at revision 2025-11-25',
  },
  {
    peer: 'rmcp',
    transport: 'sse',
    reason: 'rmcp 3.8 has no HTTP+SSE transport on either side',
  },
  {
    era: 'modern',
    transport: 'sse',
    reason: 'HTTP+SSE belongs to revision 2024-11-05; the modern era does not define it',
  },
  {
    peer: 'rmcp',
    side: 'client',
    era: 'modern',
    check: 'visit',
    reason: 'rmcp 3.8 wants an elicitationId, which the modern era does not have',
  },
  {
    peer: 'py',
    side: 'client',
    transport: 'sse',
    check: 'big',
    reason: "the SDK's SSE client refuses an event over 1 MiB and has no setting for it",
  },
];

/** The gap that covers this use of a peer, if there is one. */
export function gapOf({ peer, side, era, transport, check }) {
  const use = { peer, side, era, transport, check };
  return GAPS.find((gap) =>
    Object.entries(gap).every(([key, value]) => key === 'reason' || use[key] === value));
}
