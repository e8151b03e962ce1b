//! Who may come in.

use std::net::IpAddr;
use std::sync::Arc;

use switchboard_gateway::plan::Plan;
use switchboard_gateway::policy::Access;
use switchboard_gateway::porter::Porter;

use super::host;
use crate::args::GatewayArgs;
use crate::exit::Failure;
use crate::header;
use crate::limit;

/// What whoever shows `--api-key` is called, in logs and counts.
const API_KEY: &str = "--api-key";

/// Whoever is at the doors of this gateway.
pub(super) fn porter(args: &GatewayArgs, plan: &Plan) -> Result<Arc<Porter>, Failure> {
    let access = access(args, plan)?;
    check_reach(args, plan, &access)?;
    Ok(Porter::new(access, plan.bounds.sessions.unwrap_or(limit::LIGHT_SESSIONS)))
}

/// Everybody that the files and the command line let in. On our own stdio there
/// is only who started us.
pub(super) fn access(args: &GatewayArgs, plan: &Plan) -> Result<Access, Failure> {
    if args.stdio {
        return Ok(Access::default());
    }
    let access = plan.access.clone();
    let Some(key) = &args.api_key else { return Ok(access) };
    let key = header::filled(key, |name: &str| std::env::var(name).ok())?;
    Ok(access.with_key(API_KEY, key.as_bytes()))
}

/// Other machines come in only if they show who they are, or the user insists.
fn check_reach(args: &GatewayArgs, plan: &Plan, access: &Access) -> Result<(), Failure> {
    let host = host(args, plan);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = bare == "localhost" || bare.parse().is_ok_and(|at: IpAddr| at.is_loopback());
    let is_meant = args.allow_unauthenticated || plan.listen.unauthenticated;
    if args.stdio || is_here || !access.is_open() || is_meant {
        return Ok(());
    }
    Err(Failure::new(format!("on {host} anybody who reaches this machine could come in"))
        .hint("let in only who has a key: --api-key '${KEY}', or \"keys\" in the file")
        .hint("or say that anybody may come in: --allow-unauthenticated"))
}
