//! The manager of points of access as a service: one of all that run works, the others stand by.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_bus::{GroupName, MemberName, Membership, MembershipEvent, Position};

use super::courier::{Courier, Following};
use super::{Bell, Course, Running, ServiceError, wall_ms};
use crate::messages::{ConnectionReport, Handover, HelloPoA, LoadReport, Payload};
use crate::points::{Points, PointsAction};
use crate::register::Topic;

/// Records that are taken at once.
const TAKEN_AT_ONCE: usize = 1_024;
/// How long a manager listens at the least before its first decisions, and how often it looks then whether it has
/// listened for long enough.
const FIRST_CYCLE: Duration = Duration::from_millis(500);
/// The group in which one manager is chosen.
const GROUP: &str = "points-of-access";
/// The age of a manager's clock at its start, so that earlier events have a time as well.
const BEFORE: Duration = Duration::from_secs(86_400);

/// How a manager runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerSettings {
    /// The name of this process among the candidates for the manager.
    pub member: String,
    /// Time between two cycles.
    pub cycle: Duration,
}

/// Starts the thread of a manager. `points` makes the decider each time that it is this process's turn; if it returns
/// `None`, the process stands by.
///
/// # Errors
/// When the thread cannot be started, or the name of the member is invalid.
pub fn start_manager(
    courier: Courier,
    settings: &ManagerSettings,
    points: impl FnMut() -> Option<Points> + Send + 'static,
) -> Result<Running, ServiceError> {
    let (group, member) = (GroupName::new(GROUP)?, MemberName::new(&settings.member)?);
    let (cycle, bell) = (settings.cycle, Bell::default());
    let membership = courier.bus().join(&group, &member, 1, bell.wake())?;
    let body = move |bell: &Bell, course: &Course| {
        run(&courier, cycle, &membership, points, bell, course);
        courier.leave(membership);
    };
    Running::start("points", bell, body).map_err(ServiceError::Thread)
}

fn run(
    courier: &Courier,
    cycle: Duration,
    membership: &Membership,
    mut points: impl FnMut() -> Option<Points>,
    bell: &Bell,
    course: &Course,
) {
    if courier.prepare(&Topic::ALL, course).is_none() {
        return;
    }
    let mut work: Option<Work> = None;
    while !course.is_over() {
        // Asked before its partitions: a member has its share, too.
        let joined = membership.tenure().is_some();
        for event in membership.take() {
            match event {
                MembershipEvent::Gained(_) => {
                    work = points().and_then(|points| Work::begin(courier, points, bell, course));
                }
                MembershipEvent::Losing(partition) => {
                    work = None;
                    membership.release(partition);
                }
                MembershipEvent::Lost(_) => work = None,
            }
        }
        course.stands(joined);
        let until = match &mut work {
            Some(work) => work.turn(courier, cycle, bell),
            None => Instant::now() + Duration::from_secs(60),
        };
        bell.wait_until(until);
    }
}

/// The state of the manager while it is the owner.
struct Work {
    points: Points,
    began: Instant,
    hellos: Following,
    loads: Following,
    connections: Following,
    handovers: Following,
    next_cycle: Instant,
    /// Since when reports are taken in.
    listens_since: Instant,
    /// Whether it has listened for long enough.
    decides: bool,
    /// Gateways whose configuration the bus has not stored.
    unconfigured: Arc<Mutex<Vec<String>>>,
}

impl Work {
    fn begin(courier: &Courier, points: Points, bell: &Bell, course: &Course) -> Option<Self> {
        let now = Instant::now();
        // New reports show the present state; old ones do not.
        let fresh = |topic| {
            let from = courier.bounds(topic, 0, course)?.next;
            Some(Following::new(courier, topic, 0, from, bell))
        };
        tracing::info!("this process manages the points of access");
        Some(Self {
            points,
            began: now,
            hellos: fresh(Topic::HelloPoA)?,
            loads: fresh(Topic::LoadReport)?,
            connections: fresh(Topic::ConnectionReport)?,
            handovers: Following::new(courier, Topic::Handover, 0, Position::START, bell),
            next_cycle: now + FIRST_CYCLE,
            listens_since: Instant::now(),
            decides: false,
            unconfigured: Arc::default(),
        })
    }

    /// Takes in the reports, and looks at everything when it is time. Returns when to return.
    fn turn(&mut self, courier: &Courier, cycle: Duration, bell: &Bell) -> Instant {
        let now = BEFORE + self.began.elapsed();
        for record in self.handovers.take(courier, bell, TAKEN_AT_ONCE) {
            if let Some(handover) = courier.read_as::<Handover>(&record) {
                let age = Duration::from_millis(wall_ms().saturating_sub(handover.at_ms));
                self.points.remember(now, age, &handover);
            }
        }
        for gateway in std::mem::take(&mut *self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.points.not_configured(&gateway);
        }
        let mut actions = Vec::new();
        for record in self.hellos.take(courier, bell, TAKEN_AT_ONCE) {
            actions.extend(courier.read_as::<HelloPoA>(&record).and_then(|hello| self.points.hello(&hello)));
        }
        for record in self.loads.take(courier, bell, TAKEN_AT_ONCE) {
            actions
                .extend(courier.read_as::<LoadReport>(&record).and_then(|report| self.points.load(Some(now), report)));
        }
        for record in self.connections.take(courier, bell, TAKEN_AT_ONCE) {
            if let Some(report) = courier.read_as::<ConnectionReport>(&record) {
                self.points.connected(now, report);
            }
        }
        if self.next_cycle <= Instant::now() {
            self.decides |= self.points.has_listened(self.listens_since.elapsed());
            if self.decides {
                actions.extend(self.points.cycle(now, wall_ms()));
            }
            self.next_cycle = Instant::now() + if self.decides { cycle } else { cycle.min(FIRST_CYCLE) };
        }
        for action in actions {
            tell(courier, &action, &self.unconfigured);
        }
        self.next_cycle
    }
}

fn tell(courier: &Courier, action: &PointsAction, unconfigured: &Arc<Mutex<Vec<String>>>) {
    if matches!(action, PointsAction::HandOver(_)) {
        courier.counters().handovers_decided.add(1);
    }
    match action {
        PointsAction::Configure(config) => {
            let (gateway, unconfigured) = (config.gateway.clone(), Arc::clone(unconfigured));
            courier.tell_or(Topic::PingConfig, None, &config.gateway, config.write(), move || {
                unconfigured.lock().unwrap_or_else(PoisonError::into_inner).push(gateway.clone());
            });
        }
        PointsAction::List(list) => courier.tell(Topic::GWList, None, Topic::GWList.name(), list.write()),
        PointsAction::HandOver(handover) => courier.tell(Topic::Handover, None, &handover.node, handover.write()),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_bus::{Address, Bus, Settings};

    use super::*;
    use crate::points::PointsSettings;
    use crate::ranking::ConnectionsInverse;

    /// The gateways that report in the first moment are not all.
    #[test]
    fn a_new_manager_publishes_no_list_before_all_could_report() {
        let bus = Bus::open(&Address::Embedded, Settings::default(), Arc::new(|_| {})).unwrap();
        let (courier, bell, course) = (Courier::new(bus, 1), Bell::default(), Course::new("points"));
        courier.prepare(&Topic::ALL, &course).unwrap();
        let points = Points::new(PointsSettings::default(), Box::new(ConnectionsInverse)).unwrap();
        let mut work = Work::begin(&courier, points, &bell, &course).unwrap();
        let hour = Duration::from_secs(3_600);
        let report = LoadReport { gateway: "a".into(), life: 1, number: 1, period_ms: 2_000, ..LoadReport::default() };
        courier.tell(Topic::LoadReport, None, "a", report.write());
        work.next_cycle = Instant::now() + hour;
        while !work.points.has_listened(hour) {
            work.turn(&courier, hour, &bell);
        }
        let lists = || courier.bounds(Topic::GWList, 0, &course).unwrap();
        let none = lists();
        (work.next_cycle, work.listens_since) = (Instant::now(), Instant::now());
        let again = work.turn(&courier, hour, &bell);
        assert!(lists() == none && again < Instant::now() + hour / 2, "it looks again soon");
        let long_since = Instant::now().checked_sub(Duration::from_secs(3)).unwrap();
        (work.next_cycle, work.listens_since) = (Instant::now(), long_since);
        work.turn(&courier, hour, &bell);
        while lists() == none {}
    }
}
