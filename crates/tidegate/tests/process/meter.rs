//! `tidegate meter`: usage by tenant, over restarts and `kill -9`.

use crate::broker::{Broker, Ended, Folder, run};

/// Publishes so many messages of QoS 1 through a listener.
fn publish(broker: &Broker, listener: usize, count: usize) {
    let mut addresses = broker.ready.split_whitespace().filter(|word| word.starts_with("mqtt://"));
    let (host, port) = addresses.nth(listener).unwrap()["mqtt://".len()..].rsplit_once(':').unwrap();
    for _ in 0..count {
        let ended = run(&["pub", "-h", host, "-p", port, "-q", "1", "-t", "a", "-m", "x"]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    }
}

fn meter(broker: &Broker, flags: &[&str]) -> Ended {
    let admin = format!("http://{}", broker.address("admin=http://"));
    let ended = run(&[&["meter", "--admin", &admin][..], flags].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    ended
}

/// The messages that a tenant has sent, and its bytes.
fn used(broker: &Broker, tenant: &str) -> (u64, u64) {
    let list: serde_json::Value = serde_json::from_str(&meter(broker, &["--json"]).out).unwrap();
    let list = list.as_array().unwrap();
    let one = list.iter().find(|usage| usage["tenant"] == tenant);
    one.map_or((0, 0), |usage| {
        assert!(usage["connection_minutes"].is_number() && usage["sink_deliveries"].is_u64(), "{usage}");
        (usage["messages_in"].as_u64().unwrap(), usage["bytes_in"].as_u64().unwrap())
    })
}

const TENANTS: &str = "
[node]
shards = 2
[[listener]]
name = 'own'
address = '127.0.0.1:0'
[[listener]]
name = 'acme'
address = '127.0.0.1:0'
[[tenant]]
name = 'acme'
listeners = ['acme']
";

#[test]
fn usage_that_was_shown_survives_kill_9_and_counts_once() {
    let folder = Folder::new();
    let (config, data) = (folder.write("t.toml", TENANTS), folder.file("data"));
    let start = || Broker::start_with(&["--config", &config, "--data", &data, "--admin", "127.0.0.1:0"]);
    let broker = start();
    publish(&broker, 0, 2);
    publish(&broker, 1, 3);
    let shown = (used(&broker, "default"), used(&broker, "acme"));
    assert_eq!((shown.0.0, shown.1.0), (2, 3));
    assert!(shown.0.1 > 0 && shown.1.1 > shown.0.1, "{shown:?}");
    broker.signal("KILL");
    broker.wait();

    let broker = start();
    assert_eq!((used(&broker, "default"), used(&broker, "acme")), shown);
    publish(&broker, 1, 4);
    // The last four were not asked for: the broker books them when it stops.
    broker.signal("TERM");
    assert_eq!(broker.wait().code, Some(0));

    let broker = start();
    assert_eq!((used(&broker, "default").0, used(&broker, "acme").0), (2, 7));
    let metrics = broker.get("/metrics").1;
    assert!(!metrics.contains("tidegate_tenant_messages_total{tenant=\"acme\""), "nothing was used since the start");
}

#[test]
fn a_price_list_makes_an_invoice() {
    let folder = Folder::new();
    let prices = folder.write("prices.toml", "currency = 'EUR'\n[price]\nbase = 5\nmillion_messages_in = 1000000\n");
    let broker = Broker::start(&[]);
    publish(&broker, 0, 2);
    let invoice = meter(&broker, &["--from", "1h", "--by", "tenant", "--csv", "--prices", &prices]).out;
    assert_eq!(
        invoice,
        "tenant,item,quantity,price,amount,currency\n\
         default,base,1,5,5.00,EUR\n\
         default,million_messages_in,0.000002,1000000,2.00,EUR\n\
         default,total,,,7.00,EUR\n"
    );
    let none = meter(&broker, &["--to", "2020-01-01"]);
    assert_eq!(none.out, "no tenant has used anything in this time\n");
    assert!(none.err.contains("has no data directory"), "{}", none.err);
}
