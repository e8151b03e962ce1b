//! `switchboard doctor`: what is wrong with a server.

use std::time::Duration;

use super::client::{find, interrupted, other, until, usage};
use crate::args::DoctorArgs;
use crate::doctor::{self, Plan};
use crate::exit::{CommandError, ExitStatus};
use crate::output::write_line;
use crate::signal::Stop;

/// How long one answer may take, unless the user or the file says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// Visits the server and reports.
pub(crate) async fn run(args: &DoctorArgs) -> Result<ExitStatus, CommandError> {
    let stop = Stop::on_signals().map_err(|error| other(&CommandError::of(&error).to_string()))?;
    let (found, rest) = find(&args.reach, &args.operands).map_err(usage)?;
    if let Some(more) = rest.first() {
        return Err(usage(CommandError::new(format!("{more:?} is one too many"))));
    }
    let said = args.reach.timeout.map(Duration::from_secs);
    let patience = said.or(found.timeouts.start).unwrap_or(PATIENCE);
    let plan = Plan { era: args.reach.era.era(), patience };
    let visited = until(&stop, Box::pin(doctor::visit(found, plan))).await;
    let report = doctor::judge(visited.ok_or_else(interrupted)?);
    if args.json {
        write_line(&serde_json::to_string_pretty(&report.json()).unwrap_or_default());
    } else {
        write_line(&report.text());
    }
    Ok(if report.is_healthy() { ExitStatus::Success } else { ExitStatus::Failure })
}
