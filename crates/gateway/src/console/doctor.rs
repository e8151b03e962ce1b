//! What the doctor finds about a server (C-2).
//!
//! The doctor is a part of the command line: whoever serves the console lends it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;

use super::api::lines_response;
use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console, millis};
use crate::plan::{PlanSecret, ServerPlan};

/// One step of a visit, or something that was found.
#[derive(Clone, Debug)]
pub struct DoctorStep {
    /// Its name.
    pub name: String,
    /// `ok`, `warning` or `failed`.
    pub outcome: &'static str,
    /// The fact.
    pub text: String,
    /// What to do.
    pub hint: Option<String>,
    /// How long it took.
    pub took: Option<Duration>,
}

/// Visits a server beside its clients, and says what is wrong with it.
pub(super) type ServerDoctor = dyn Fn(ServerPlan) -> DoctorVisit + Send + Sync;

/// A visit.
pub type DoctorVisit = Pin<Box<dyn Future<Output = Vec<DoctorStep>> + Send>>;

impl Console {
    /// Has people ask this doctor about servers. Once only.
    pub fn lend_doctor(&self, doctor: impl Fn(ServerPlan) -> DoctorVisit + Send + Sync + 'static) {
        _ = self.doctor.set(Arc::new(doctor));
    }

    /// What the doctor finds about a server: a line for each step, and how all of it ended.
    pub(super) async fn ask_doctor(
        &self,
        viewer: &Viewer,
        name: &str,
    ) -> ApiResult<Response<Bytes>> {
        let running = self.running(viewer, name)?;
        self.may_change(viewer)?;
        let none = || ApiError::not_found("this gateway has no doctor");
        let doctor = Arc::clone(self.doctor.get().ok_or_else(none)?);
        let busy = |_| {
            let message = "other servers are visited at this time";
            ApiError::new(StatusCode::CONFLICT, "busy", message)
        };
        let _permit = self.trials.try_acquire().map_err(busy)?;
        let steps = doctor(ServerPlan::clone(&running.plan)).await;
        let secrets = PlanSecret::collect(&[&self.gateway.plan()]);
        let veil = |text: &str| PlanSecret::veil(text, &secrets).into_owned();
        let mut lines = String::new();
        for DoctorStep { name, outcome, text, hint, took } in &steps {
            let (text, hint) = (veil(text), hint.as_deref().map(veil));
            let ms = took.map(millis);
            let line =
                json!({"step": name, "outcome": outcome, "text": text, "hint": hint, "ms": ms});
            lines.extend([line.to_string(), "\n".to_owned()]);
        }
        let has = |outcome: &str| steps.iter().any(|step| step.outcome == outcome);
        let worst = ["failed", "warning"].into_iter().find(|outcome| has(outcome)).unwrap_or("ok");
        lines.extend([json!({"outcome": worst}).to_string(), "\n".to_owned()]);
        let principal = viewer.who.name();
        tracing::info!(principal, server = name, outcome = worst, "doctor asked in the console");
        Ok(lines_response(lines, None))
    }
}
