//! What a modern server lets its client carry between rounds goes back to that
//! server alone (GW-83): wrapped with its name, and sealed.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use switchboard_net::face::Face;
use switchboard_net::seal::Sealer;
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::patch;
use switchboard_proto::refusal::Refusal;

const MEMBER: &str = "requestState";

/// The answer, with a state that only this server gets to see again. None if
/// it cannot be sealed.
pub(super) fn sealed<'m>(
    sealer: Option<&Sealer>,
    face: &Face,
    server: &str,
    answer: Cow<'m, Message>,
) -> Option<Cow<'m, Message>> {
    let result = answer.payload().filter(|_| answer.kind() == Kind::Result).unwrap_or_default();
    let Some(state) = patch::string(result, &[MEMBER]) else { return Some(answer) };
    let whole = [server.as_bytes(), b"\0", state.as_bytes()].concat();
    let state = Value::from(sealer?.seal_bytes(whole, face.principal())?).to_string();
    let result = patch::replace(result, &[MEMBER], state.as_bytes())?;
    Some(Cow::Owned(answer.with_payload(&result)))
}

/// The request with the state as its server gave it.
pub(super) fn opened(
    sealer: Option<&Sealer>,
    face: &Face,
    server: &Arc<str>,
    request: &Message,
) -> Result<Message, Refusal> {
    let params = request.payload().unwrap_or_default();
    let Some(state) = patch::string(params, &[MEMBER]) else { return Ok(request.clone()) };
    let sealer = sealer.ok_or(Refusal::BadState)?;
    let whole = sealer.open_bytes(&state, face.principal()).map_err(|_| Refusal::BadState)?;
    let whole = String::from_utf8(whole).map_err(|_| Refusal::BadState)?;
    let (maker, state) = whole.split_once('\0').ok_or(Refusal::BadState)?;
    if maker != &**server {
        return Err(Refusal::BadState);
    }
    let state = Value::from(state).to_string();
    let params = patch::replace(params, &[MEMBER], state.as_bytes()).ok_or(Refusal::BadState)?;
    Ok(request.with_payload(&params))
}
