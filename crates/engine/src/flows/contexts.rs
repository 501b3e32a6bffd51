//! The contexts of flows: which parts of an engine each of them borrows.
//!
//! A context is a struct of borrows, and the macro before its name borrows it: `publishing!(engine)` makes a
//! [`Publishing`] from an engine, or from a larger context. Methods of a context are where its flow is.

use crate::access::Rules;
use crate::addresses::Nodes;
use crate::cluster::peers::Peers;
use crate::durable::Recovery;
use crate::groups::Groups;
use crate::image::Handover;
use crate::link::Links;
use crate::orchestrator::broker_link::BrokerLinks;
use crate::orchestrator::homes::HomesInForce;
use crate::principals::Services;
use crate::publish::admission::Admissions;
use crate::publish::layouts::Layouts;
use crate::publish::turn_share::TurnShare;
use crate::retained::Retaining;
use crate::session::ended::EndedSessions;
use crate::state::ShardState;
use crate::sys::Sys;
use crate::topics::Router;
use std::collections::BTreeMap;

/// The type of a part of an engine.
macro_rules! part {
    (admissions) => { Admissions };
    (endings) => { EndedSessions };
    (groups) => { Groups };
    (handover) => { Handover };
    (homes) => { HomesInForce };
    (layouts) => { Layouts };
    (links) => { Links };
    (nodes) => { Nodes };
    (peers) => { Peers };
    (pings) => { BTreeMap<(u32, u16), bool> };
    (recovery) => { Recovery };
    (retaining) => { Retaining };
    (router) => { Router };
    (rules) => { Rules };
    (services) => { Services };
    (state) => { ShardState };
    (sys) => { Sys };
    (turn_share) => { TurnShare };
    (broker_links) => { BrokerLinks };
}

/// Declares contexts: the parts that they change and read. The first token is the `$` of the macros that it makes.
macro_rules! contexts {
    (($d:tt) $($(#[$doc:meta])* $borrow:ident => $Context:ident {
        $(mut $($changed:ident),+;)? $(ref $($read:ident),+;)?
    })+) => {$(
        $(#[$doc])*
        pub(crate) struct $Context<'e> {
            $($(pub $changed: &'e mut part!($changed),)+)?
            $($(pub $read: &'e part!($read),)+)?
        }

        macro_rules! $borrow {
            ($d from:expr) => {
                $crate::flows::contexts::$Context {
                    $($($changed: &mut $d from.$changed,)+)?
                    $($($read: &$d from.$read,)+)?
                }
            };
        }
        pub(crate) use $borrow;
    )+};
}

contexts! { ($)
    /// The parts of an engine that route, retain and deliver a message. No connection is opened or closed by it.
    publishing => Publishing {
        mut state, layouts, links, groups, broker_links, router, retaining, services, nodes;
        ref homes, rules;
    }

    /// The parts of an engine that the stages of the pipeline look at, and the room that they reserve.
    deciding => Deciding {
        mut state, router, layouts, links, retaining, groups, nodes, broker_links, peers, admissions, turn_share,
            services;
        ref rules, homes;
    }

    /// The parts of an engine that acknowledge a packet when all that it promises is confirmed, and that tell
    /// principals the outcome.
    answering => Answering {
        mut state, router, layouts, links, retaining, groups, broker_links, peers, services;
        ref rules;
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
        ref rules;
    }

    /// The parts of an engine that bring retained messages to subscriptions.
    fetching => Fetching {
        mut state, retaining, layouts, links;
        ref router, rules;
    }

    /// The parts of an engine that change with a subscription: the index, the groups, and the announcements to other
    /// shards and brokers.
    subscribing => Subscribing {
        mut state, router, groups, nodes, links, peers, broker_links, sys, retaining, layouts;
        ref rules;
    }

    /// The parts of an engine that change when a client loses the right to messages in flight.
    withdrawing => Withdrawing {
        mut state, layouts, links, groups, broker_links;
        ref rules;
    }

    /// The parts of an engine that decide whether a client comes in, and under which name and limits.
    connecting => Connecting {
        mut state, router;
        ref rules, homes, links;
    }

    /// The parts of an engine that make a publisher wait: its connection, the links that may be full, and the share of
    /// the turn.
    parking => Parking {
        mut state, links, turn_share;
    }

    /// The parts of an engine that end a session, and that publish its will here or owe it to other nodes.
    ending => SessionEnding {
        mut state, router, layouts, links, retaining, groups, nodes, broker_links, sys, peers, recovery, handover,
            endings, services;
        ref rules, homes;
    }

    /// The parts of an engine that process announcements of other shards about their subscriptions and groups.
    peering => Peering {
        mut state, router, layouts, links, retaining, groups, nodes, broker_links, sys, peers, services;
        ref rules;
    }

    /// The parts of an engine that an image of a partition is written from. It changes none of them.
    imaging => Imaging {
        ref state, router, links, retaining, groups, nodes, peers;
    }

    /// The parts of an engine that write, read, hand over and forget the sessions of partitions that move.
    moving => Moving {
        mut state, router, layouts, links, retaining, groups, nodes, broker_links, sys, peers, handover, services;
        ref rules, homes;
    }

    /// The parts of an engine that an orchestrator needs to exchange messages and subscriptions with its brokers.
    broker_linking => BrokerLinking {
        mut state, router, layouts, links, retaining, groups, nodes, broker_links, sys, peers, handover, services;
        ref rules, homes;
    }
}
