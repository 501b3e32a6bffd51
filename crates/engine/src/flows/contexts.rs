//! The contexts of flows: which parts of an engine each of them borrows.
//!
//! A context is a struct of borrows, and the macro before its name borrows it: `publishing!(engine)` makes a
//! [`Publishing`] from an engine, or from a larger context. Methods of a context are where its flow is.

use crate::access::Rules;
use crate::addresses::Nodes;
use crate::cluster::outgoing::Outgoing;
use crate::cluster::peers::Peers;
use crate::durable::Recovery;
use crate::groups::Groups;
use crate::ids::{AssignedNames, ShardPosition};
use crate::image::Handover;
use crate::link::Links;
use crate::observers::Observers;
use crate::orchestrator::broker_link::BrokerLinks;
use crate::orchestrator::homes::HomesInForce;
use crate::principals::Principals;
use crate::publish::admission::Admissions;
use crate::publish::layouts::Layouts;
use crate::publish::turn_share::TurnShare;
use crate::retained::RetainedStore;
use crate::retained::fetch::Fetches;
use crate::session::ended::EndedSessions;
use crate::settings::Settings;
use crate::state::ShardState;
use crate::sys::Sys;
use crate::topics::{Route, RouteCache, SubscriptionIndex};
use std::collections::BTreeMap;

/// The type of a part of an engine.
macro_rules! part {
    (admissions) => { Admissions };
    (assigned) => { AssignedNames };
    (cache) => { RouteCache };
    (endings) => { EndedSessions };
    (fetches) => { Fetches };
    (groups) => { Groups };
    (handover) => { Handover };
    (homes) => { HomesInForce };
    (index) => { SubscriptionIndex };
    (layouts) => { Layouts };
    (links) => { Links };
    (nodes) => { Nodes };
    (observers) => { Observers };
    (outgoing) => { Outgoing };
    (peers) => { Peers };
    (pings) => { BTreeMap<(u32, u16), bool> };
    (place) => { ShardPosition };
    (principals) => { Principals };
    (recovery) => { Recovery };
    (retained) => { RetainedStore };
    (rules) => { Rules };
    (scratch_properties) => { Vec<u8> };
    (scratch_route) => { Route };
    (settings) => { Settings };
    (state) => { ShardState };
    (sys) => { Sys };
    (turn_share) => { TurnShare };
    (broker_links) => { BrokerLinks };
}

/// Declares contexts: the parts that they change, read and copy. The first token is the `$` of the macros that it makes.
macro_rules! contexts {
    (($d:tt) $($(#[$doc:meta])* $borrow:ident => $Context:ident {
        $(mut $($changed:ident),+;)? $(ref $($read:ident),+;)? $(copy $($copied:ident),+;)?
    })+) => {$(
        $(#[$doc])*
        pub(crate) struct $Context<'e> {
            $($(pub $changed: &'e mut part!($changed),)+)?
            $($(pub $read: &'e part!($read),)+)?
            $($(pub $copied: part!($copied),)+)?
        }

        macro_rules! $borrow {
            ($d from:expr) => {
                $crate::flows::contexts::$Context {
                    $($($changed: &mut $d from.$changed,)+)?
                    $($($read: &$d from.$read,)+)?
                    $($($copied: $d from.$copied,)+)?
                }
            };
        }
        pub(crate) use $borrow;
    )+};
}

contexts! { ($)
    /// The parts of an engine that route, retain and deliver a message. No connection is opened or closed by it.
    publishing => Publishing {
        mut state, layouts, links, groups, broker_links, index, cache, scratch_route, retained, assigned, observers,
            nodes;
        ref homes, rules, principals;
    }

    /// The parts of an engine that the stages of the pipeline look at, and the room that they reserve.
    deciding => Deciding {
        mut state, index, cache, scratch_route, layouts, links, retained, fetches, groups, nodes, broker_links, peers,
            assigned, admissions, turn_share, observers, principals, outgoing;
        ref rules, homes, settings;
        copy place;
    }

    /// The parts of an engine that acknowledge a packet when all that it promises is confirmed, and that tell
    /// principals the outcome.
    answering => Answering {
        mut state, index, layouts, links, retained, fetches, groups, broker_links, peers, principals, outgoing;
        ref rules;
        copy place;
    }

    /// The parts of an engine that dealing works on: the groups, the sessions that may get a message, and the way to
    /// other shards.
    dealing => Dealing {
        mut state, layouts, links, groups, broker_links;
    }

    /// The parts of an engine that an acknowledgement changes: sessions and their queues, brokers of a fleet, and
    /// pings.
    acknowledging => Acknowledging {
        mut state, layouts, broker_links, pings;
    }

    /// The parts of an engine that take messages of a queue back from the store.
    reading => Reading {
        mut state;
        ref rules, settings;
    }

    /// The parts of an engine that bring retained messages to subscriptions.
    fetching => Fetching {
        mut state, fetches, layouts, links, retained;
        ref index, rules;
    }

    /// The parts of an engine that change with a subscription: the index, the groups, and the announcements to other
    /// shards and brokers.
    subscribing => Subscribing {
        mut state, index, groups, nodes, links, peers, broker_links, sys, retained, layouts, fetches;
        ref rules;
    }

    /// The parts of an engine that decide whether a client comes in, and under which name and limits.
    connecting => Connecting {
        mut state, index, assigned;
        ref rules, homes, links;
    }

    /// The parts of an engine that make a publisher wait: its connection, the links that may be full, and the share of
    /// the turn.
    parking => Parking {
        mut state, links, turn_share;
        ref settings;
        copy place;
    }

    /// The parts of an engine that end a session, and that publish its will here or owe it to other nodes.
    ending => SessionEnding {
        mut state, index, cache, scratch_route, layouts, links, retained, fetches, groups, nodes, broker_links, sys,
            peers, recovery, handover, assigned, endings, observers, principals, outgoing;
        ref rules, homes, settings;
        copy place;
    }

    /// The parts of an engine that process announcements of other shards about their subscriptions and groups.
    peering => Peering {
        mut state, index, layouts, links, retained, fetches, groups, nodes, broker_links, sys, peers, principals,
            outgoing;
        ref rules;
        copy place;
    }

    /// The parts of an engine that an image of a partition is written from. It changes none of them.
    imaging => Imaging {
        ref state, index, links, retained, fetches, groups, nodes, outgoing;
    }

    /// The parts of an engine that write, read, hand over and forget the sessions of partitions that move.
    moving => Moving {
        mut state, index, cache, scratch_route, layouts, links, retained, fetches, groups, nodes, broker_links, sys,
            peers, handover, assigned, observers, principals;
        ref rules, homes, settings;
        copy place;
    }

    /// The parts of an engine that an orchestrator needs to exchange messages and subscriptions with its brokers.
    broker_linking => BrokerLinking {
        mut state, index, cache, scratch_route, scratch_properties, layouts, links, retained, fetches, groups,
            nodes, broker_links, sys, peers, handover, assigned, turn_share, observers, principals, outgoing;
        ref rules, homes, settings;
        copy place;
    }
}
