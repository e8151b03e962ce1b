//! The console of a gateway that `serve` runs: whether there is one, and its link.

use std::path::PathBuf;
use std::sync::Arc;

use switchboard_gateway::config::ServerOptions;
use switchboard_gateway::console::{CONSOLE_PATH, Console, DoctorStep};
use switchboard_gateway::gateway::Gateway;
use switchboard_gateway::plan::{ConsoleMode, Plan, ServerPlan};
use switchboard_net::OwnedTask;
use switchboard_net::http::site::SitePage;

use super::summary::{client_base, local_base};
use super::{console_host, gateway_folder};
use crate::args::{CredentialArgs, GatewayArgs, NetworkArgs};
use crate::doctor::{self, Finding, Report, Severity};
use crate::exit::CommandResult;
use crate::log::PLAIN;
use crate::serve::{ConsoleEntrance, Web, is_local};
use crate::signal::StopSignal;
use crate::target::{self, NamedServer};

/// The console while it is served. Clones are the same.
#[derive(Clone)]
pub(super) struct ServedConsole(Arc<Console>);

/// Whether people find a console. Where other machines come in without a key, there is none.
pub(super) fn is_wanted(args: &GatewayArgs, plan: &Plan) -> bool {
    let is_closed = is_local(&console_host(args, plan)) || !plan.access.is_open();
    !args.stdio && plan.console != ConsoleMode::Off && is_closed
}

/// Starts the console, if one is wanted. It ends with the first signal.
pub(super) fn start(
    args: &GatewayArgs,
    gateway: &Arc<Gateway>,
    stop: &StopSignal,
) -> Option<ServedConsole> {
    if !is_wanted(args, &gateway.plan()) {
        return None;
    }
    let console = Console::start(gateway, gateway_folder(&args.config))?;
    if !is_local(&console_host(args, &gateway.plan())) {
        console.require_keys();
    }
    let credentials = args.credentials.clone();
    console.lend_doctor(move |plan| Box::pin(ask_doctor(plan, credentials.clone())));
    let (closing, stopped) = (Arc::clone(&console), stop.clone().asked());
    tokio::spawn(async move {
        stopped.await;
        // Pages that look would keep their connections.
        closing.close();
    });
    Some(ServedConsole(console))
}

/// What the doctor finds about a server, beside its clients.
async fn ask_doctor(plan: ServerPlan, credentials: CredentialArgs) -> Vec<DoctorStep> {
    let examined = async {
        let fetch = target::fetch(&NetworkArgs::default())?;
        let server = plan.server(target::environment(), fetch, None);
        let options = ServerOptions { start: Some(plan.start), ..ServerOptions::default() };
        let found = NamedServer { server, options, oauth: plan.oauth.clone() };
        doctor::examine(&found, &credentials).await
    };
    match examined.await {
        Ok(report) => doctor_steps(&report),
        Err(error) => {
            let (name, text) = ("visit".to_owned(), error.line());
            vec![DoctorStep { name, outcome: "failed", text, hint: None, took: None }]
        }
    }
}

fn doctor_steps(report: &Report) -> Vec<DoctorStep> {
    let steps = report.evidence.steps.iter().map(|(name, took)| DoctorStep {
        name: name.clone(),
        outcome: "ok",
        text: String::new(),
        hint: None,
        took: Some(*took),
    });
    let findings = report.findings.iter().map(|Finding { severity, id, what, remedy, .. }| {
        let outcome = match severity {
            Severity::Error => "failed",
            Severity::Warning => "warning",
            Severity::Note => "ok",
        };
        let hint = Some(remedy.clone()).filter(|hint| !hint.is_empty());
        DoctorStep { name: (*id).to_owned(), outcome, text: what.clone(), hint, took: None }
    });
    steps.chain(findings).collect()
}

impl ServedConsole {
    pub(super) fn pages(&self) -> Vec<(String, SitePage)> {
        self.0.pages()
    }

    /// How its page comes in to the servers.
    pub(super) fn entrance(&self) -> ConsoleEntrance {
        let console = Arc::clone(&self.0);
        let gate = Box::new(move |place| console.gate(place));
        ConsoleEntrance { prefix: CONSOLE_PATH, headers: Console::headers(), gate }
    }

    /// Says where people find it; the link to it.
    pub(super) fn found_at(&self, plan: &Plan, main: &Web, own: Option<&Web>) -> String {
        let gateway = client_base(plan, main.at());
        let at = own.unwrap_or(main).at();
        // The file says where clients find the gateway, and nothing of this port.
        let base = own.map_or_else(|| gateway.clone(), |_| local_base(at));
        let sites: Vec<_> = [Some(main), own].into_iter().flatten().map(Web::sites).collect();
        self.0.found_at(&base, &gateway, at.address.port(), &sites);
        self.0.link()
    }

    /// Has people change these files.
    pub(super) fn follow_files(&self, files: &[PathBuf]) -> CommandResult {
        self.0.follow_files(files.to_vec(), target::surroundings()?);
        Ok(())
    }

    /// The files were read, with so many mistakes because of which they are not in force.
    pub(super) fn tell_config(&self, problems: usize) {
        self.0.tell_config(problems, problems == 0);
    }

    /// Tells the next link whenever one was used. Ends with what is returned.
    pub(super) fn tell_links(self) -> OwnedTask {
        OwnedTask::spawn(async move {
            loop {
                self.0.link_used().await;
                tracing::info!(target: PLAIN, "Open the console again: {}", self.0.link());
            }
        })
    }
}
