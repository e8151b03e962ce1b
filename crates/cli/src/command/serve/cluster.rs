//! One of several replicas: the store that they share, and the port where they reach each other.

use std::sync::Arc;
use std::time::Duration;

use switchboard_gateway::redis_store::RedisStore;
use switchboard_net::OwnedTask;
use switchboard_net::cluster::key::ClusterKey;
use switchboard_net::cluster::replica::{Replica, ReplicaOptions};
use switchboard_net::http::hop;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::args::GatewayArgs;
use crate::exit::{CommandError, CommandResult, wrong};
use crate::serve::Web;
use crate::signal::StopSignal;
use crate::target;

/// Has the key of the cluster.
const KEY: &str = "SWITCHBOARD_CLUSTER_KEY";

/// How long a replica counts as there without a sign of life.
const LEASE: Duration = Duration::from_secs(3);

/// What the keys in the store begin with.
const PREFIX: &str = "switchboard";

/// A replica whose port is ours.
pub(super) struct JoinedCluster {
    replica: Arc<Replica>,
    listener: TcpListener,
}

/// Joins the cluster that the command line names.
pub(super) async fn join(args: &GatewayArgs) -> CommandResult<Option<JoinedCluster>> {
    let args = &args.cluster;
    let Some(url) = &args.cluster else { return Ok(None) };
    let text = match &args.cluster_key_file {
        Some(file) => std::fs::read_to_string(file).map(Some).map_err(|error| {
            CommandError::new(format!("cannot read {}: {error}", file.display()))
        })?,
        None => target::variable(KEY),
    };
    let Some(text) = text else {
        let hint = format!("export {KEY}=$(openssl rand -hex 32), the same for all replicas");
        return wrong("replicas of a cluster need a key", hint);
    };
    let key = ClusterKey::parse(&text);
    let key = key.map_err(|bad| CommandError::new(bad.to_string()))?;
    let store = RedisStore::new(url, PREFIX).map_err(|bad| CommandError::new(bad.to_string()))?;
    let listener = TcpListener::bind(&args.cluster_listen).await.map_err(|error| {
        CommandError::new(format!("cannot listen on {}: {error}", args.cluster_listen))
            .hint("pick another address: --cluster-listen HOST:PORT")
    })?;
    let at = listener.local_addr()?;
    let advertise = match &args.cluster_advertise {
        Some(advertise) => advertise.clone(),
        None if at.ip().is_unspecified() => {
            let hint = "name this machine: --cluster-advertise HOST:PORT";
            return wrong("other replicas do not know where this one is", hint);
        }
        None => at.to_string(),
    };
    let options = ReplicaOptions { advertise: advertise.clone(), lease: LEASE };
    let replica = Replica::join(Arc::new(store), key, options).await;
    let replica = replica.map_err(|_| CommandError::new("the system has no randomness"))?;
    tracing::info!("replica {} is reached by others at {advertise}", replica.id());
    Ok(Some(JoinedCluster { replica, listener }))
}

impl JoinedCluster {
    pub(super) fn replica(&self) -> Arc<Replica> {
        Arc::clone(&self.replica)
    }

    /// Serves clients until a signal, and other replicas until the last client is served.
    pub(super) async fn serve(self, web: Web, stop: StopSignal) {
        let (end, ended) = oneshot::channel::<()>();
        let shutdown = async {
            _ = ended.await;
        };
        let (sites, replica) = (web.sites(), Arc::clone(&self.replica));
        let _hops = OwnedTask::spawn(hop::serve_hops(self.listener, sites, replica, shutdown));
        web.serve(stop).await;
        drop(end);
        self.replica.leave().await;
    }
}
