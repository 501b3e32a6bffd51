//! Limits of a tenant over all shards together, and their changes while the broker runs.

use crate::broker::{Broker, Ended, Folder, run};

const DOORS: [&str; 2] = ["door", "acme"];

/// A broker of two shards, with a listener for everybody and one more.
struct House {
    broker: Broker,
    folder: Folder,
}

fn config(tenants: &str) -> String {
    let listener = |name: &str| format!("[[listener]]\nname = '{name}'\naddress = '127.0.0.1:0'\n");
    let listeners: String = DOORS.map(listener).concat();
    format!("[node]\nshards = 2\n[access]\ndefault = 'allow'\n{listeners}{tenants}")
}

impl House {
    fn new(tenants: &str) -> Self {
        let folder = Folder::new();
        let path = folder.write("t.toml", &config(tenants));
        Self { broker: Broker::start_with(&["--config", &path, "--admin", "127.0.0.1:0"]), folder }
    }

    fn admin(&self) -> String {
        format!("http://{}", self.broker.address("admin=http://"))
    }

    fn ask(&self, words: &[&str]) -> Ended {
        run(&[words, &["--admin", &self.admin()]].concat())
    }

    fn reload(&self, tenants: &str) -> Ended {
        self.folder.write("t.toml", &config(tenants));
        self.ask(&["reload"])
    }

    /// Runs a client's command at one of the doors.
    fn client(&self, door: usize, words: &[&str]) -> Ended {
        let mut addresses = self.broker.ready.split_whitespace().filter_map(|word| word.strip_prefix("mqtt://"));
        let (host, port) = addresses.nth(door).and_then(|address| address.rsplit_once(':')).unwrap();
        run(&[&words[..1], &["-V", "5", "-h", host, "-p", port], &words[1..]].concat())
    }

    /// How many of these clients get a session that outlives their connection.
    fn sessions(&self, door: usize, names: std::ops::Range<u32>) -> usize {
        let lasting = |name: &u32| {
            let name = format!("c{name}");
            let words = ["sub", "-i", &name, "-c", "-x", "1000", "-q", "1", "-t", "a", "-E"];
            self.client(door, &words).code == Some(0)
        };
        names.filter(lasting).count()
    }

    fn metric(&self, line: &str) -> bool {
        self.broker.get("/metrics").1.lines().any(|have| have == line)
    }
}

#[test]
fn a_quota_is_whole_over_all_shards_and_a_reload_changes_it() {
    let house = House::new("[[tenant]]\nname = 'acme'\nlisteners = ['acme']\nmax_sessions = 5\n");
    assert_eq!(house.sessions(1, 0..9), 5, "on all shards");
    assert_eq!(house.sessions(0, 0..9), 9);
    assert!(house.metric("tidegate_tenant_holdings{tenant=\"acme\",kind=\"sessions\"} 5"));
    assert!(house.metric("tidegate_tenant_quota{tenant=\"acme\",kind=\"sessions\"} 5"));
    assert!(house.metric("tidegate_tenant_refused_total{tenant=\"acme\",kind=\"sessions\"} 4"));
    let ended = house.reload("[[tenant]]\nname = 'acme'\nlisteners = ['acme']\nmax_sessions = 7\n");
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("tenant.0.max_sessions: 5 -> 7\n"), "{}", ended.out);
    assert_eq!(house.sessions(1, 100..109), 2);
    assert_eq!(house.sessions(1, 100..109), 2, "who has a session comes in at the limit");
}

#[test]
fn a_reload_adds_a_tenant_and_takes_one_away() {
    let house = House::new("");
    let retain = |door, payload| house.client(door, &["pub", "-q", "1", "-r", "-t", "t", "-m", payload]).code;
    let kept = |door| house.client(door, &["sub", "-t", "t", "-C", "1", "-W", "120"]).out;
    assert_eq!(retain(1, "everybody's"), Some(0));
    let ended = house.reload("[[tenant]]\nname = 'new'\nlisteners = ['acme']\n");
    assert!(ended.code == Some(0) && !ended.out.contains("restart"), "{}{}", ended.out, ended.err);
    assert_eq!(retain(1, "of the new one"), Some(0));
    assert_eq!((kept(0).as_str(), kept(1).as_str()), ("everybody's\n", "of the new one\n"));
    let other = "[[tenant]]\nname = 'other'\n[[tenant]]\nname = 'new'\nlisteners = ['door']\n";
    assert_eq!(house.reload(other).code, Some(0));
    assert_eq!((kept(0).as_str(), kept(1).as_str()), ("of the new one\n", "everybody's\n"));
    assert_eq!(house.reload("").code, Some(0));
    assert_eq!(kept(0), "everybody's\n");
    let wrong = house.reload("[[tenant]]\nname = 'new'\nlisteners = ['nowhere']\n");
    assert_eq!(wrong.code, Some(1));
    assert_eq!(kept(1), "everybody's\n");
}

#[test]
fn a_ban_is_about_the_tenant_that_it_names() {
    let acme = "[[tenant]]\nname = 'acme'\nlisteners = ['acme']\n";
    let house = House::new(acme);
    let comes_in = |door, name| house.client(door, &["pub", "-i", name, "-t", "t", "-m", "x"]).code == Some(0);
    let ended = house.ask(&["ban", "add", "client", "eve", "--tenant", "acme"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(comes_in(0, "eve") && !comes_in(1, "eve") && comes_in(1, "ann"));
    let listed = house.ask(&["ban", "list"]).out;
    assert!(listed.contains("client eve") && listed.contains("tenant acme"), "{listed}");
    assert_eq!(house.ask(&["ban", "remove", "client", "eve"]).code, Some(1), "that would be the default tenant's");
    assert_eq!(house.ask(&["ban", "remove", "client", "eve", "--tenant", "acme"]).code, Some(0));
    assert!(comes_in(1, "eve"));
    let unknown = house.ask(&["ban", "add", "client", "eve", "--tenant", "absent"]);
    assert!(unknown.code == Some(1) && unknown.err.contains("no tenant"), "{}", unknown.err);
    assert_eq!(house.reload(&format!("{acme}banned_clients = ['ann']\n")).code, Some(0));
    assert!(comes_in(0, "ann") && !comes_in(1, "ann"));
}
