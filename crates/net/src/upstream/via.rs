//! Finds servers that lead back to the gateway that names them.
//!
//! A gateway that names itself would list its own tools again and again, and one
//! that starts itself would start processes without end. So each server of a
//! gateway or bridge has a random id, and each chain of them is told:
//!
//! ```text
//!   HTTP    every request to a server has  Switchboard-Via: ID, ID, ...
//!           its own id, and all that came in lately where this server is offered
//!   stdio   every child has  SWITCHBOARD_VIA=PROCESS.ID,PROCESS.ID,...
//!           PROCESS is the same for two processes that serve the same configuration
//!   both    greetings and lists of a gateway's own have  "_meta": {"switchboard/via": "ID, ID, ..."}
//!           for programs in between that pass on neither header nor variable
//!           A gateway adds an ID that all processes have which serve the same on this machine.
//! ```
//!
//! A gateway that finds the id of a server in a request for that server refuses
//! the request ([`Refusal::Loop`](switchboard_proto::refusal::Refusal::Loop)), and so does one that was started by another
//! that serves the same configuration: by the variable before it starts a server, or
//! by the first request, where a program in between dropped the variable. Requests share connections, so the chain of
//! a single request is not known further on: what a request brought is told on for
//! [`TOLD_FOR`], and as long as the request is open.
//!
//! The refusal names the ids that the request or the child was told. A gateway
//! believes only one that names its own id of the server: a client may have a server
//! say anything else, but knows no ids.

use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher as _};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Member, Message, Part};
use switchboard_proto::{method, refusal};
use tokio::sync::watch;

use super::{ServerTarget, Upstream};
use crate::backend::Through;
use crate::connection::lock;
use crate::drive::now;
use crate::platform;

/// The variable that tells a child which servers of which processes led to it.
pub const VARIABLE: &str = "SWITCHBOARD_VIA";

/// The header that tells a server the same.
pub(super) const HEADER: HeaderName = HeaderName::from_static("switchboard-via");

/// The member of `_meta` that tells a server the same.
const META: &str = "switchboard/via";

/// Gateways and bridges that start each other. More are taken for a loop whose
/// configuration is made anew each time.
const MOST_PROCESSES: usize = 8;

/// Ids of other gateways' servers that are told on, the newest. Each is 18 bytes
/// of a header that servers take 8 KiB of at least.
const MOST_TOLD: usize = 128;

/// How long they are told on after a request brought them, if it is not open for
/// longer. Gateways listen to each other, or try again each minute, so that those of a
/// loop stay. Those that a client made up do not.
const TOLD_FOR: Duration = Duration::from_mins(2);

/// Open requests of other gateways that are remembered for a server: mostly the
/// listens, one of each gateway before this one.
const MOST_OPEN: usize = 64;

/// What led to this process: it names servers, and was perhaps started as one.
#[derive(Clone, Debug)]
pub struct Ancestry {
    /// The same for all processes that serve the same.
    process: u64,
    /// Process and server of each gateway above this one, the first one first.
    above: Vec<(u64, u64)>,
    /// The same for all gateways of this machine and container that serve the same.
    twin: Option<u64>,
    /// Whether the client is the process that started this one.
    is_child: bool,
    is_bridge: bool,
    /// Where its servers are named.
    source: Arc<str>,
}

impl Ancestry {
    /// A gateway. `serves` is what it has in common with others that serve the
    /// same, `source` the files that name its servers, `variable` the value of
    /// [`VARIABLE`] that it was started with.
    pub fn gateway(serves: impl Hash, source: &str, variable: Option<&str>) -> Self {
        let process = digest(serves);
        let pair = |text: &str| {
            let (process, id) = text.split_once('.')?;
            Some((parse(process)?, parse(id)?))
        };
        let above = variable.unwrap_or_default().split(',').filter_map(pair);
        Self {
            process,
            above: above.take(MOST_PROCESSES).collect(),
            twin: Some(digest((process, platform::process_space()))),
            is_child: false,
            is_bridge: false,
            source: source.into(),
        }
    }

    /// A bridge: a loop that it is a part of is for the gateway before it to refuse.
    pub fn bridge(serves: impl Hash, variable: Option<&str>) -> Self {
        Self { is_bridge: true, twin: None, ..Self::gateway(serves, "the command", variable) }
    }

    /// Its client is the process that started it.
    #[must_use]
    pub fn serving_parent(self) -> Self {
        Self { is_child: true, ..self }
    }

    /// The servers that led to this process, the first one first.
    pub fn above(&self) -> Vec<u64> {
        self.above.iter().map(|(_, id)| *id).collect()
    }

    /// Whether a process above serves the same already, or there are too many.
    pub fn is_loop(&self) -> bool {
        let is_known = self.above.iter().any(|(process, _)| *process == self.process);
        is_known || self.above.len() >= MOST_PROCESSES
    }
}

fn digest(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// One server in the chains that it is a part of.
pub(super) struct Via {
    id: u64,
    /// What the process that started us tells if it serves the same.
    parent: Option<u64>,
    /// What its children are started with.
    pub(super) variable: String,
    told: Mutex<Told>,
    leads_back: watch::Sender<bool>,
    is_bridge: bool,
    source: Arc<str>,
}

/// What its requests tell.
struct Told {
    /// Ids that came in and when, those that came least lately first.
    ids: VecDeque<(u64, Instant)>,
    /// What open requests came through.
    open: Vec<Weak<[u64]>>,
    /// Its own, and those above this process.
    first: String,
    header: HeaderValue,
}

impl Via {
    /// A server of a process; none if the system has no randomness for an id.
    fn new(ancestry: &Ancestry) -> Option<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).ok()?;
        let id = u64::from_be_bytes(random);
        let chain = ancestry.above.iter().copied().chain([(ancestry.process, id)]);
        let pairs: Vec<_> =
            chain.map(|(process, id)| format!("{process:016x}.{id:016x}")).collect();
        let above = ancestry.above.iter().filter(|_| ancestry.is_child);
        let ids: Vec<_> = above.map(|(_, id)| *id).chain([id]).chain(ancestry.twin).collect();
        let first = listed(ids.iter());
        let header = HeaderValue::from_str(&first).ok()?;
        Some(Self {
            id,
            parent: ancestry.twin.filter(|_| ancestry.is_child),
            variable: pairs.join(","),
            told: Mutex::new(Told { ids: VecDeque::new(), open: Vec::new(), first, header }),
            leads_back: watch::Sender::new(false),
            is_bridge: ancestry.is_bridge,
            source: Arc::clone(&ancestry.source),
        })
    }

    /// What a request to the server tells.
    pub(super) fn header(&self) -> HeaderValue {
        let mut told = lock(&self.told);
        told.forget(now());
        told.header.clone()
    }

    /// Requests for this server came through these.
    fn add(&self, through: &Through) {
        let (mut told, now) = (lock(&self.told), now());
        told.forget(now);
        told.open.retain(|open| open.strong_count() > 0);
        if told.open.len() < MOST_OPEN {
            told.open.push(Arc::downgrade(through));
        }
        if told.see(through, now) {
            told.write();
        }
    }
}

impl Told {
    /// These came in; whether one of them is not told yet.
    fn see(&mut self, through: &[u64], now: Instant) -> bool {
        let mut is_other = false;
        for id in through {
            let known = self.ids.iter().position(|(known, _)| known == id);
            is_other |= known.and_then(|at| self.ids.remove(at)).is_none();
            self.ids.push_back((*id, now));
        }
        while self.ids.len() > MOST_TOLD {
            self.ids.pop_front();
        }
        is_other
    }

    /// Forgets those that came in too long ago, unless their request is open.
    fn forget(&mut self, now: Instant) {
        let is_old = |(_, seen): &(u64, Instant)| now.duration_since(*seen) >= TOLD_FOR;
        if !self.ids.front().is_some_and(is_old) {
            return;
        }
        let open: Vec<_> = self.open.iter().filter_map(Weak::upgrade).collect();
        for through in open {
            self.see(&through, now);
        }
        self.ids.retain(|id| !is_old(id));
        self.write();
    }

    fn write(&mut self) {
        let ids = listed(self.ids.iter().map(|(id, _)| id));
        let text =
            if ids.is_empty() { self.first.clone() } else { format!("{}, {ids}", self.first) };
        if let Ok(header) = HeaderValue::from_str(&text) {
            self.header = header;
        }
    }
}

fn listed<'i>(ids: impl Iterator<Item = &'i u64>) -> String {
    ids.map(|id| format!("{id:016x}")).collect::<Vec<_>>().join(", ")
}

fn parse(id: &str) -> Option<u64> {
    u64::from_str_radix(id.trim(), 16).ok()
}

/// The servers of other gateways that a request came through.
pub(crate) fn through(headers: &HeaderMap) -> Through {
    let values = headers.get_all(HEADER).iter().filter_map(|value| value.to_str().ok());
    let ids = values.flat_map(|value| value.split(',')).filter_map(parse);
    ids.take(MOST_TOLD + MOST_PROCESSES).collect()
}

/// The same by what a message says of itself; none if it says nothing.
pub fn told_through(message: &Message) -> Option<Through> {
    if !tells_chain(message.method()) {
        return None;
    }
    let told = message.part(Member::Meta)?.string(META)?;
    Some(told.split(',').filter_map(parse).take(MOST_TOLD + MOST_PROCESSES).collect())
}

/// Whether requests of this method tell the chain: what a gateway must ask before it can offer
/// a server's tools once more.
fn tells_chain(method: &str) -> bool {
    use method::{DISCOVER, INITIALIZE, LIST_PROMPTS, LIST_RESOURCES, LIST_TEMPLATES, LIST_TOOLS};
    let lists = [LIST_TOOLS, LIST_PROMPTS, LIST_RESOURCES, LIST_TEMPLATES];
    matches!(method, INITIALIZE | DISCOVER) || lists.contains(&method)
}

/// Whether a request for these servers came through one of them. If not, their
/// own requests tell from here on what it came through.
pub fn leads_back<'s>(
    servers: impl Iterator<Item = &'s ServerTarget> + Clone,
    through: &Through,
) -> bool {
    let vias = servers.filter_map(ServerTarget::via);
    if vias.clone().any(|via| through.iter().any(|id| *id == via.id || Some(*id) == via.parent)) {
        return true;
    }
    vias.for_each(|via| via.add(through));
    false
}

impl ServerTarget {
    /// The same server, named by a gateway or bridge that looks for loops.
    #[must_use]
    pub fn named_by(&self, ancestry: &Ancestry) -> Self {
        self.but(|details| details.via = Via::new(ancestry).map(Arc::new))
    }

    /// Whether it led back to us when it was last asked something.
    pub fn leads_back(&self) -> bool {
        self.via().is_some_and(|via| *via.leads_back.borrow())
    }

    /// Waits until the server is known to lead back.
    pub(crate) async fn until_loop(&self) {
        match self.via() {
            // The sender lives as long as the server.
            Some(via) => _ = via.leads_back.subscribe().wait_for(|leads_back| *leads_back).await,
            None => std::future::pending().await,
        }
    }

    /// It is about to be asked again.
    pub(crate) fn forget_loop(&self) {
        if let Some(via) = self.via() {
            via.leads_back.send_replace(false);
        }
    }

    /// What to do about a server of this name that leads back, for the log.
    pub(crate) fn loop_advice(&self, name: &str) -> String {
        let source = self.via().map_or("the configuration", |via| &via.source);
        format!("server {name:?} leads back to this gateway; remove it from {source}")
    }
}

impl ServerTarget {
    /// A message of a gateway's own, which tells its chain where that is looked for.
    pub(crate) fn tell_chain(&self, message: Message) -> Message {
        let via = self.via().filter(|via| tells_chain(message.method()) && !via.is_bridge);
        let Some(header) = via.map(|via| via.header()) else { return message };
        let text = header.to_str().unwrap_or_default();
        let meta = message.part(Member::Meta).unwrap_or(Part::new(b"{}"));
        match meta.with_string(META, text) {
            Some(meta) => message.with(Member::Meta, meta),
            None => message,
        }
    }
}

impl Upstream {
    /// The failure of a call if this says that the server leads back.
    pub(super) fn loop_in(&self, message: &Message) -> Option<Failure> {
        let via = self.server.via().filter(|via| refusal::is_loop(message, via.id))?;
        via.leads_back.send_replace(true);
        (!via.is_bridge).then_some(Failure::LOOP)
    }
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use switchboard_proto::client::Sharing;
    use switchboard_proto::revision::Era;

    use super::*;
    use crate::http::fetch::{Fetch, FetchOptions};
    use crate::upstream::{Eras, Strategy};

    fn server(ancestry: &Ancestry) -> ServerTarget {
        let fetch = Fetch::new(FetchOptions::default()).unwrap();
        let url = Uri::from_static("http://127.0.0.1:1/mcp");
        ServerTarget::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch).named_by(ancestry)
    }

    /// What each server tells of itself: its id, and what its gateway has in common with others.
    const OWN: usize = 2;

    /// What the other end of a request to this server reads.
    fn sent(server: &ServerTarget) -> Through {
        through(&HeaderMap::from_iter([(HEADER, server.via().unwrap().header())]))
    }

    #[test]
    fn a_chain_is_told_on_and_found_where_it_began() {
        let gateway = Ancestry::gateway("a", "a.json", None);
        let [one, two, three] = [(); 3].map(|()| server(&gateway));
        assert!(!leads_back([&two].into_iter(), &sent(&one)));
        assert!(!leads_back([&three].into_iter(), &sent(&two)));
        assert!(!leads_back([&two, &three].into_iter(), &sent(&one)), "a diamond");
        assert!(leads_back([&one].into_iter(), &sent(&three)));
        assert_eq!(sent(&one).len(), OWN, "what is refused is not told on");
        let more: Through = (0..1000).collect();
        leads_back([&one].into_iter(), &more);
        assert_eq!(sent(&one).len(), OWN + MOST_TOLD);
        assert!(sent(&one).contains(&999), "the newest");
    }

    #[test]
    fn a_child_knows_a_parent_that_serves_the_same_without_the_variable() {
        let gateway = |serves| Ancestry::gateway(serves, "a.json", None);
        let parent = sent(&server(&gateway("a")));
        let child = |serves| server(&gateway(serves).serving_parent());
        assert!(leads_back([&child("a")].into_iter(), &parent));
        assert!(!leads_back([&child("b")].into_iter(), &parent));
        // Over HTTP the other end is another gateway, which may well serve the same.
        assert!(!leads_back([&server(&gateway("a"))].into_iter(), &parent));
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_in_is_told_on_until_two_minutes_after_its_last_request() {
        let [one, two] = [(); 2].map(|()| server(&Ancestry::gateway("a", "a.json", None)));
        let open = sent(&two);
        assert!(!leads_back([&one].into_iter(), &Arc::from([7])));
        assert!(!leads_back([&one].into_iter(), &open));
        let almost = TOLD_FOR.saturating_sub(Duration::from_secs(1));
        for _ in 0..3 {
            tokio::time::advance(almost).await;
            assert!(sent(&one).contains(&7), "it came in again in time");
            assert!(!leads_back([&one].into_iter(), &Arc::from([7])));
        }
        tokio::time::advance(TOLD_FOR).await;
        assert_eq!(sent(&one)[OWN..], open[..], "of those only one request is open");
        drop(open);
        tokio::time::advance(almost).await;
        assert_eq!(sent(&one).len(), OWN + OWN);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(sent(&one).len(), OWN);
    }

    #[tokio::test]
    async fn a_gateways_own_greetings_and_lists_tell_the_chain_and_nothing_else_does() {
        let request =
            |method: &str| Message::request(&1.into(), method, Some(br#"{"_meta":{"a":1}}"#));
        let sent = |server: &ServerTarget, method: &str| {
            let (eras, limits) = (Eras::both(Era::Legacy), Arc::default());
            let up = Upstream::new(server.clone(), eras, Sharing::Alone, None, limits);
            up.declaring(request(method))
        };
        let gateway = Ancestry::gateway("a", "a.json", None);
        let own = server(&gateway).supervised();
        let list = sent(&own, "tools/list");
        let through = told_through(&list).unwrap();
        assert_eq!(through[..], [own.via().unwrap().id, gateway.twin.unwrap()]);
        let meta = list.part(Member::Meta).unwrap();
        assert_eq!(meta.string(META).unwrap().len(), 34, "{list:?}");
        assert!(meta.get(&["a"]).is_some(), "the rest stays: {list:?}");
        assert!(leads_back([&own].into_iter(), &through));
        for (server, method) in [
            (own.clone(), "tools/call"),
            (server(&gateway), "tools/list"),
            (server(&Ancestry::bridge("a", None)).supervised(), "tools/list"),
        ] {
            let passed = sent(&server, method);
            assert_eq!(passed.text(), request(method).text());
            assert!(told_through(&passed).is_none());
        }
    }

    #[test]
    fn a_process_that_serves_what_one_above_it_serves_is_a_loop() {
        let above = Ancestry::gateway("a", "a.json", None);
        let variable = server(&above).via().unwrap().variable.clone();
        let below = |serves| Ancestry::gateway(serves, "", Some(&variable));
        assert!(!above.is_loop() && !below("b").is_loop() && below("a").is_loop());
        let alone = server(&below("b"));
        assert_eq!(sent(&alone).len(), OWN, "those above it are no clients of its own");
        assert_eq!(sent(&server(&below("b").serving_parent())).len(), OWN + 1);
        let mut variable = String::new();
        for depth in 0..MOST_PROCESSES {
            let next = Ancestry::gateway(depth, "", Some(&variable));
            assert!(!next.is_loop(), "{depth}");
            variable = server(&next).via().unwrap().variable.clone();
        }
        assert!(Ancestry::gateway("z", "", Some(&variable)).is_loop(), "too many");
        assert!(!Ancestry::gateway("z", "", Some("nonsense,x.y")).is_loop());
    }
}
