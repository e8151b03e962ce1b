//! What a modern server lets its client carry between rounds goes back to that
//! server alone (GW-83): wrapped with its name, and sealed.

use std::borrow::Cow;
use std::sync::Arc;

use switchboard_net::face::Face;
use switchboard_net::seal::Sealer;
use switchboard_proto::jsonrpc::{Kind, Member, Message};
use switchboard_proto::refusal::Refusal;

/// The answer, with a state that only this server gets to see again. None if
/// it cannot be sealed.
pub(super) fn sealed<'m>(
    sealer: Option<&Sealer>,
    face: &Face,
    server: &str,
    answer: Cow<'m, Message>,
) -> Option<Cow<'m, Message>> {
    let is_result = answer.kind() == Kind::Result;
    let Some(state) = answer.string(Member::RequestState).filter(|_| is_result) else {
        return Some(answer);
    };
    let whole = [server.as_bytes(), b"\0", state.as_bytes()].concat();
    let state = sealer?.seal_bytes(whole, face.principal())?;
    Some(Cow::Owned(answer.with_string(Member::RequestState, &state)))
}

/// The request with the state as its server gave it.
pub(super) fn opened(
    sealer: Option<&Sealer>,
    face: &Face,
    server: &Arc<str>,
    request: &Message,
) -> Result<Message, Refusal> {
    let Some(state) = request.string(Member::RequestState) else { return Ok(request.clone()) };
    let sealer = sealer.ok_or(Refusal::BadState)?;
    let whole = sealer.open_bytes(&state, face.principal()).map_err(|_| Refusal::BadState)?;
    let whole = String::from_utf8(whole).map_err(|_| Refusal::BadState)?;
    let (maker, state) = whole.split_once('\0').ok_or(Refusal::BadState)?;
    if maker != &**server {
        return Err(Refusal::BadState);
    }
    Ok(request.with_string(Member::RequestState, state))
}
