//! A manager whose brokers are pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tidegate_document::FileText;
use tidegate_fleet::fleet_file::FleetFile;
use tidegate_fleet::level::Level;
use tidegate_fleet::manage::driver::{Driver, Logins, NoEntryPoint, Parts, StateDirectory};
use tidegate_fleet::manage::{DecidedElsewhere, Judge, LevelDecision, LevelSeen, Moment, Phase, Wish};
use tidegate_fleet::provider::kubernetes::Kubernetes;
use tidegate_fleet::provider::{
    Allocation, Condition, Look, Observed, Provider, ProviderError, Release, Resource, ResourceName, Stack,
};

use crate::cluster::{Cluster, until};
use crate::orchestrator::Orchestrator;

/// Pods, and an orchestrator outside them.
struct Both(Kubernetes, Orchestrator);

impl Both {
    fn orchestrator(&self) -> Observed {
        let resource = Resource {
            name: "orchestrator-1".parse().unwrap(),
            level: Level::Orchestrator,
            template: "test".to_owned(),
            address: "mqtt://127.0.0.1:1".to_owned(),
            admin: Some(format!("http://{}", self.1.address)),
            pid: None,
            note: String::new(),
        };
        Observed { resource, condition: Condition::Online, cpu: None, memory: None }
    }
}

impl Provider for Both {
    fn allocate(&mut self, wanted: &Allocation) -> Result<Resource, ProviderError> {
        match wanted.level {
            Level::Broker => self.0.allocate(wanted),
            Level::Orchestrator => Ok(self.orchestrator().resource),
        }
    }

    fn list(&mut self) -> Result<Vec<Resource>, ProviderError> {
        self.0.list()
    }

    fn release(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.0.release(name)
    }

    fn stop(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.0.stop(name)
    }

    fn stack(&self, level: Level) -> Option<Stack> {
        self.0.stack(level)
    }

    fn observe(&mut self, look: Look) -> Result<Vec<Observed>, ProviderError> {
        let mut all = self.0.observe(look)?;
        all.push(self.orchestrator());
        Ok(all)
    }
}

/// Wants as many as the test says; 0 is whatever there is.
struct Wanted(Arc<AtomicU32>);

impl Judge for Wanted {
    fn judge(&mut self, seen: &LevelSeen) -> LevelDecision {
        let wanted = self.0.load(Ordering::SeqCst);
        let wish = match seen.serving + seen.pending {
            _ if wanted == 0 => Wish::Hold,
            there if there < wanted => Wish::Grow(1),
            there if there > wanted => Wish::Shrink(1),
            _ => Wish::Hold,
        };
        LevelDecision {
            wish,
            load: None,
            reason: "the test says so".to_owned(),
            details: Value::Null,
            skew: None,
            suits: None,
        }
    }

    fn note_action(&mut self, _: Moment) {}
}

fn driver(cluster: &Cluster, orchestrator: &Orchestrator, wanted: &Arc<AtomicU32>) -> Driver {
    let text = "[fleet]\nname = \"test\"\ninterval = \"1s\"\n[sla]\nbrokers = { min = 1, max = 4 }\n";
    let file = FleetFile::read(&FileText::new("fleet.toml", text)).unwrap();
    let directory = std::env::temp_dir().join(format!("tidegate-kubernetes-manager-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let judges: [(Level, Box<dyn Judge>); 2] = [
        (Level::Broker, Box::new(Wanted(Arc::clone(wanted)))),
        (Level::Orchestrator, Box::new(DecidedElsewhere::default())),
    ];
    let pods = Kubernetes::open(cluster.settings("tidegate-broker")).unwrap();
    let parts = Parts {
        metrics: None,
        settings: file.settings,
        judges: BTreeMap::from(judges),
        provider: Box::new(Both(pods, orchestrator.clone())),
        entry_point: Box::new(NoEntryPoint),
        logins: Logins::default(),
        admin_token: None,
        directory: StateDirectory::lock(&directory).unwrap(),
        port: 0,
    };
    Driver::open(parts).unwrap()
}

fn phase(driver: &Driver, name: &str) -> Option<Phase> {
    driver.manager().book().phase(&name.parse().unwrap())
}

/// Looks with the manager until a broker is in a phase, or in none, and no action is under way.
fn until_settled(driver: &mut Driver, name: &str, expected: Option<Phase>) {
    until(&format!("{name} is {expected:?}"), || {
        driver.observe().unwrap();
        phase(driver, name) == expected && driver.manager().book().actions.is_empty()
    });
}

#[test]
#[ignore = "needs a control plane: e2e/kubernetes/run.sh"]
fn a_broker_is_drained_before_any_end_of_its_pod() {
    let cluster = Cluster::take();
    let (orchestrator, wanted) = (Orchestrator::start(), Arc::new(AtomicU32::new(0)));
    let mut driver = driver(&cluster, &orchestrator, &wanted);
    until_settled(&mut driver, "tidegate-broker-0", Some(Phase::Serving));

    wanted.store(2, Ordering::SeqCst);
    until_settled(&mut driver, "tidegate-broker-1", Some(Phase::Serving));
    assert!(orchestrator.calls().contains(&"PUT /api/v1/fleet/brokers/tidegate-broker-1".to_owned()));

    // The manager scales in: as long as something is owed, the pod stays.
    orchestrator.owe(5);
    wanted.store(1, Ordering::SeqCst);
    until("the broker is being drained", || {
        driver.observe().unwrap();
        orchestrator.calls().contains(&"POST /api/v1/fleet/brokers/tidegate-broker-1/drain".to_owned())
    });
    for _ in 0..5 {
        driver.check().unwrap();
        assert_eq!((cluster.replicas(), phase(&driver, "tidegate-broker-1")), (2, Some(Phase::Draining)));
    }
    orchestrator.owe(0);
    until("the broker is forgotten", || {
        let before = cluster.replicas();
        driver.check().unwrap();
        let forgotten = !orchestrator.knows("tidegate-broker-1");
        assert!(forgotten || before == 2, "the pod went before it was forgotten");
        forgotten
    });
    until_settled(&mut driver, "tidegate-broker-1", None);
    assert_eq!((cluster.replicas(), cluster.pods()), (1, vec!["tidegate-broker-0".to_owned()]));

    // Another actor scales out and in again.
    wanted.store(0, Ordering::SeqCst);
    cluster.scale(2);
    until_settled(&mut driver, "tidegate-broker-1", Some(Phase::Serving));
    cluster.hold("tidegate-broker-1");
    orchestrator.calls();
    cluster.scale(1);
    until("it is drained and forgotten while it is held", || {
        driver.observe().unwrap();
        !orchestrator.knows("tidegate-broker-1")
    });
    let calls = orchestrator.calls();
    assert!(calls.contains(&"POST /api/v1/fleet/brokers/tidegate-broker-1/drain".to_owned()), "{calls:?}");
    assert_eq!(cluster.pods().len(), 2);
    cluster.let_go("tidegate-broker-1");
    until_settled(&mut driver, "tidegate-broker-1", None);
    assert_eq!(cluster.replicas(), 1, "neither scaled out against the other");
}
