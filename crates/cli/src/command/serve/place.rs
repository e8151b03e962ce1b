//! What stands at each path, while servers come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_gateway::gateway::{self, Gateway, Offered};
use switchboard_gateway::plan::{Changes, Plan};
use switchboard_net::http::site::Site;
use switchboard_net::http::sites::Sites;
use switchboard_proto::limits::Limits;

use super::seeing;
use crate::args::ServeArgs;
use crate::exit::CommandError;
use crate::serve::Offer;
use crate::serve::web::{Mount, Place, Web};

/// The sites of a gateway, by place.
pub(super) struct Stands {
    sites: Sites,
    mount: Mount,
    limits: Arc<Limits>,
    /// Each with whether its clients share a server, which it cannot unlearn.
    there: BTreeMap<Place, (Site, bool)>,
}

impl Stands {
    pub(super) fn new(web: &Web, limits: Arc<Limits>) -> Self {
        let (sites, mount) = (web.sites.clone(), web.mount.clone());
        Self { sites, mount, limits, there: BTreeMap::new() }
    }

    /// Keeps to what the arguments and the plan say about names, pages and bounds.
    pub(super) fn adjust(&mut self, args: &ServeArgs, plan: &Plan) -> Result<(), CommandError> {
        self.mount.change(args, &plan.bounds)?;
        self.limits = Arc::new(plan.bounds.limits(&Limits::default()));
        self.sites.guard(self.mount.guard());
        Ok(())
    }

    /// Serves what the gateway offers. What is there stays, with its sessions;
    /// sessions of what is not there any more end with their last answer.
    pub(super) fn follow(&mut self, gateway: &Gateway) {
        let mut before = std::mem::take(&mut self.there);
        let mut sites = Vec::new();
        for Offered { place, inside, shared, light } in gateway.places() {
            let inside = seeing::tapped(gateway.fleet(), &place, inside, false);
            let place = placed(place);
            let site = match before.remove(&place) {
                Some((site, same)) if same == shared => {
                    site.adjust(self.mount.rules(&self.limits, light));
                    site
                }
                other => {
                    other.inspect(|(site, _)| site.close());
                    let limits = Arc::clone(&self.limits);
                    self.mount.site(&place, Offer { inside, shared, limits }, light)
                }
            };
            sites.push(site.clone());
            self.there.insert(place, (site, shared));
        }
        self.sites.replace(sites);
        for (site, _) in before.into_values() {
            site.close();
        }
    }

    /// Ends listens at servers that are others now, or of which something else is
    /// seen, by all or by those who listen.
    pub(super) fn end_listens(&self, changes: &Changes) {
        let Changes { changed, adjusted, regranted, .. } = changes;
        for (place, (site, _)) in &self.there {
            let Place::Server(server) = place else { continue };
            let is_other = changed.contains(server) || adjusted.contains(server);
            let is_meant = |who: &str| is_other || regranted.iter().any(|name| name == who);
            site.end_listens_of(|who| is_meant(who.name()));
        }
    }
}

fn placed(place: gateway::Place) -> Place {
    match place {
        gateway::Place::All => Place::Root,
        gateway::Place::Server(name) => Place::Server(name),
        gateway::Place::Group(name) => Place::Group(name),
    }
}
