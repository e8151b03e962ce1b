//! Who may come in.

use std::net::IpAddr;

use switchboard_gateway::plan::Plan;
use switchboard_gateway::policy::{Access, KeyHash, MIN_KEY};

use super::host;
use crate::args::GatewayArgs;
use crate::exit::CommandError;
use crate::header;

/// What whoever shows `--api-key` is called, in logs and counts.
const API_KEY: &str = "--api-key";

/// Who could come in without showing who they are, if anybody may.
pub(super) struct Reach {
    host: String,
    /// The user insists that anybody may.
    is_meant: bool,
}

impl Reach {
    /// That of a gateway which is started by this plan.
    pub(super) fn of(args: &GatewayArgs, plan: &Plan) -> Self {
        // On our own stdio there is only who started us.
        let is_meant = args.allow_unauthenticated || plan.listen.unauthenticated || args.stdio;
        Self { host: host(args, plan), is_meant }
    }

    /// Other machines come in only if they show who they are, or the user insists.
    pub(super) fn check(&self, access: &Access) -> Result<(), CommandError> {
        let host = &self.host;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_here = bare == "localhost" || bare.parse().is_ok_and(|at: IpAddr| at.is_loopback());
        if is_here || !access.is_open() || self.is_meant {
            return Ok(());
        }
        Err(CommandError::new(format!("on {host} anybody who reaches this machine could come in"))
            .hint("let in only who has a key: --api-key '${KEY}', or \"keys\" in the file")
            .hint("or say that anybody may come in: --allow-unauthenticated"))
    }
}

/// Lets in whom the command line lets in too.
pub(super) fn settle(args: &GatewayArgs, plan: &mut Plan) -> Result<(), CommandError> {
    if args.stdio {
        plan.access = Access::default();
    } else if let Some(key) = &args.api_key {
        let key = header::filled(key, |name: &str| std::env::var(name).ok())?;
        // As good as what a file has for a key.
        if KeyHash::is_weak(&key) {
            let what = format!("--api-key has fewer than {MIN_KEY} characters");
            return Err(CommandError::new(what).hint("make one with: switchboard key new"));
        }
        plan.access = std::mem::take(&mut plan.access).with_key(API_KEY, key.as_bytes());
    }
    Ok(())
}
