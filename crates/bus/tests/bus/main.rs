//! The same tests for every backend: what one promises, all promise.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod appending;
mod client;
mod directory;
mod embedded;
mod fencing;
mod groups;
mod heard;
#[cfg(feature = "kafka")]
mod kafka;
mod live;
mod nats;
mod outage;
mod reading;
mod versions;

use tidegate_bus::{Bus, Observer, Settings};

/// A bus for a test. A deployment that starts servers stops them when it is dropped.
trait Deployment {
    /// One more process on the bus.
    fn bus(&self) -> Bus;
    /// Whether a partition that has reached its limits refuses more.
    const LIMITS_LOGS: bool;
}

/// A deployment whose servers can be killed.
trait Outages: Deployment {
    fn bus_with(&self, settings: Settings, observer: Observer) -> Bus;
    /// Kills the servers; they keep confirmed records.
    fn kill(&mut self);
    /// Starts them again where they were.
    fn resume(&mut self);
}

/// Settings with which nothing takes long.
fn settings() -> Settings {
    Settings {
        lease: std::time::Duration::from_secs(2),
        max_release_time: std::time::Duration::from_millis(500),
        ..Settings::default()
    }
}

/// Gives the suite's parts to a macro.
macro_rules! suite {
    ($each:ident, $deployment:expr) => {
        crate::$each!($deployment;
            appending::records_are_read_as_they_were_appended,
            appending::appends_without_a_waiter_are_in_order,
            appending::an_impossible_append_is_refused_at_once,
            appending::too_much_waiting_is_refused_at_once,
            appending::a_full_partition_refuses_until_it_is_trimmed,
            appending::a_log_keeps_the_kind_it_was_made_with,
            appending::logs_created_together_are_judged_separately,
            reading::a_reader_follows_and_begins_at_its_position,
            reading::a_reader_is_woken_at_the_end_even_of_an_empty_log,
            reading::a_reader_takes_no_more_than_it_has_room_for,
            reading::trimmed_records_are_gone_and_reported,
            reading::the_latest_record_of_each_key_stays,
            fencing::an_owner_that_was_replaced_is_refused,
            fencing::owners_in_turn_leave_no_gap_and_no_record_behind_the_next_claim,
            fencing::an_owner_stores_nothing_after_a_refused_append,
            fencing::trimming_takes_nothing_from_the_owner,
            groups::members_know_each_other_and_share_partitions,
            groups::a_name_is_taken_until_its_member_leaves,
            groups::a_partition_is_never_two_members,
            groups::a_process_takes_the_place_of_another_by_its_name,
            live::messages_reach_one_or_all_in_order,
            live::messages_without_room_are_counted,
        );
    };
}
pub(crate) use suite;

/// Gives those parts to a macro that kill servers.
macro_rules! outages {
    ($each:ident, $deployment:expr) => {
        crate::$each!($deployment;
            outage::appends_during_an_outage_are_stored_after_it,
            outage::a_late_append_fails_and_says_whether_it_may_be_stored,
            outage::a_member_that_does_not_reach_the_bus_gives_up_and_returns,
            outage::a_bus_is_opened_while_its_servers_are_away,
        );
    };
}
pub(crate) use outages;

/// Makes a test of each part, with its own deployment.
macro_rules! a_test_each {
    ($deployment:expr; $($module:ident::$test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                crate::$module::$test(&mut $deployment);
            }
        )*
    };
}
pub(crate) use a_test_each;

/// Calls one part after the other, each with its own deployment, and says which.
#[cfg(feature = "kafka")]
macro_rules! one_by_one {
    ($deployment:expr; $($module:ident::$test:ident),* $(,)?) => {
        $(
            println!("{}::{}", stringify!($module), stringify!($test));
            crate::$module::$test(&mut $deployment);
        )*
    };
}
#[cfg(feature = "kafka")]
pub(crate) use one_by_one;
