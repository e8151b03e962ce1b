//! Who may come in.

use std::net::IpAddr;

use switchboard_gateway::plan::Plan;
use switchboard_gateway::policy::Access;

use super::host;
use crate::args::GatewayArgs;
use crate::exit::Failure;
use crate::header;

/// What whoever shows `--api-key` is called, in logs and counts.
const API_KEY: &str = "--api-key";

/// Lets in whom the command line lets in too. On our own stdio there is only who
/// started us.
pub(super) fn settle(args: &GatewayArgs, plan: &mut Plan) -> Result<(), Failure> {
    if args.stdio {
        plan.access = Access::default();
        return Ok(());
    }
    if let Some(key) = &args.api_key {
        let key = header::filled(key, |name: &str| std::env::var(name).ok())?;
        plan.access = std::mem::take(&mut plan.access).with_key(API_KEY, key.as_bytes());
    }
    check_reach(args, plan)
}

/// Other machines come in only if they show who they are, or the user insists.
fn check_reach(args: &GatewayArgs, plan: &Plan) -> Result<(), Failure> {
    let host = host(args, plan);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = bare == "localhost" || bare.parse().is_ok_and(|at: IpAddr| at.is_loopback());
    let is_meant = args.allow_unauthenticated || plan.listen.unauthenticated;
    if is_here || !plan.access.is_open() || is_meant {
        return Ok(());
    }
    Err(Failure::new(format!("on {host} anybody who reaches this machine could come in"))
        .hint("let in only who has a key: --api-key '${KEY}', or \"keys\" in the file")
        .hint("or say that anybody may come in: --allow-unauthenticated"))
}
