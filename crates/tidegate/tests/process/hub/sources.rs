//! Pipelines whose messages come from other systems.

use super::*;
use crate::nats::Nats;
use crate::ports;

#[test]
fn messages_of_nats_come_to_devices_and_files() {
    let (folder, nats) = (Folder::new(), Nats::start());
    let (out, url) = (folder.file("live.ndjson"), nats.address());
    let config = folder.write(
        "hub.toml",
        &format!(
            "[[source]]\nname = \"orders\"\nkind = \"jetstream\"\nurl = \"{url}\"\nstream = \"ORDERS\"\nsubject = \"orders.>\"\n\
             [[source]]\nname = \"live\"\nkind = \"nats\"\nurl = \"{url}\"\nsubject = \"orders.>\"\n\
             [[sink]]\nname = \"bus\"\nkind = \"nats\"\nurl = \"{url}\"\nstream = \"ORDERS\"\nsubject = \"orders\"\n\
             [[sink]]\nname = \"devices\"\nkind = \"topic\"\n\
             [[sink]]\nname = \"file\"\npath = \"{out}\"\n\
             [[pipeline]]\nname = \"give\"\nfrom = [\"out/#\"]\nto = [\"bus\"]\n\
             [[pipeline]]\nname = \"take\"\nsource = \"orders\"\ntopic = \"'back/' + topic\"\nto = [\"devices\"]\n\
             [[pipeline]]\nname = \"seen\"\nsource = \"live\"\nfrom = [\"out/wanted\"]\nto = [\"file\"]\n"
        ),
    );
    let broker = Broker::start(&["-c", &config, "--data", &folder.file("data")]);
    let subscribed = client(&broker, &["sub", "-i", "keeper", "-c", "-q", "1", "-t", "back/#", "-E"]);
    assert_eq!(subscribed.code, Some(0), "{}", subscribed.err);
    status(&broker, |it| it["seen"]["state"] == "running");
    publish(&broker, "pump", "out/wanted", "7");
    let arguments = ["sub", "-i", "keeper", "-c", "-q", "1", "-t", "back/#", "-C", "1", "-W", "120", "-v"];
    let back = client(&broker, &arguments);
    assert_eq!(back.out, "back/out/wanted 7\n", "{}", back.err);
    publish(&broker, "pump", "out/other", "8");
    let numbers = |it: &serde_json::Value| {
        [("take", "out"), ("take", "in"), ("seen", "out")].map(|(of, key)| it[of][key].as_u64())
    };
    status(&broker, |it| numbers(it) == [Some(2), Some(2), Some(1)]);
    let seen = lines(&out);
    assert_eq!((seen.len(), &seen[0]["topic"], &seen[0]["payload"]), (1, &"out/wanted".into(), &7.into()));
}

#[test]
fn each_pipeline_has_all_messages_of_its_nats_source() {
    let (folder, nats) = (Folder::new(), Nats::start());
    let url = nats.address();
    let source = |name: &str, kind: &str| {
        format!("[[source]]\nname = \"{name}\"\nkind = \"{kind}\"\nurl = \"{url}\"\nsubject = \"orders.>\"\n")
    };
    let pipeline = |name: &str, source: &str, to: &str| {
        format!("[[pipeline]]\nname = \"{name}\"\nsource = \"{source}\"\nto = [\"{to}\"]\n")
    };
    let config = folder.write(
        "hub.toml",
        &[
            source("stored", "jetstream") + "stream = \"ORDERS\"\n",
            source("shared", "jetstream") + "stream = \"ORDERS\"\ngroup = \"common\"\n",
            source("live", "nats"),
            format!("[[sink]]\nname = \"bus\"\nkind = \"nats\"\nurl = \"{url}\"\nstream = \"ORDERS\"\nsubject = \"orders\"\n"),
            "[[sink]]\nname = \"nowhere\"\nkind = \"discard\"\n".to_owned(),
            "[[pipeline]]\nname = \"give\"\nfrom = [\"out/#\"]\nto = [\"bus\"]\n".to_owned(),
            pipeline("one", "stored", "nowhere"),
            pipeline("the.other", "stored", "nowhere"),
            pipeline("live-one", "live", "nowhere"),
            pipeline("live.other", "live", "nowhere"),
            pipeline("half", "shared", "nowhere"),
            pipeline("other-half", "shared", "nowhere"),
        ]
        .concat(),
    );
    let broker = Broker::start(&["-c", &config, "--data", &folder.file("data")]);
    status(&broker, |it| ["live-one", "live.other"].iter().all(|name| it[*name]["state"] == "running"));
    for number in 0..10 {
        publish(&broker, "pump", "out/a", &number.to_string());
    }
    let out = |it: &serde_json::Value, name: &str| it[name]["out"].as_u64().unwrap_or_default();
    status(&broker, |it| {
        let all = ["one", "the.other", "live-one", "live.other"].iter().all(|name| out(it, name) == 10);
        all && out(it, "half") + out(it, "other-half") == 10
    });
}

/// The status of a request.
fn post(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let len = body.len();
    write!(stream, "POST {head}\r\nhost: h\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_web_hook_is_answered_when_all_sinks_have_its_message() {
    let folder = Folder::new();
    let (out, listen) = (folder.file("hook.ndjson"), format!("127.0.0.1:{}", ports::free_port()));
    let token = folder.write("token", "t0ken\n");
    let config = folder.write(
        "hub.toml",
        &format!(
            "[[source]]\nname = \"hook\"\nkind = \"http\"\nlisten = \"{listen}\"\ntoken_file = \"{token}\"\nmax_body = \"1KiB\"\n\
             [[sink]]\nname = \"file\"\npath = \"{out}\"\n\
             [[pipeline]]\nname = \"in\"\nsource = \"hook\"\nset = [\"double = payload.n * 2\"]\nto = [\"file\"]\n"
        ),
    );
    // Neither a broker nor a bus is needed.
    let hub = Broker::start_with(&["hub", "-c", &config, "--admin", "127.0.0.1:0"]);
    status(&hub, |it| it["in"]["state"] == "running");
    let allowed = "HTTP/1.1\r\nauthorization: Bearer t0ken";
    assert_eq!(post(&listen, &format!("/orders/a%20b {allowed}"), "{\"n\":4}"), "200");
    let written = lines(&out);
    assert_eq!((written.len(), &written[0]["topic"], &written[0]["double"]), (1, &"orders/a b".into(), &8.into()));
    assert_eq!(post(&listen, "/orders HTTP/1.1\r\nauthorization: Bearer t0kem", "{}"), "401");
    assert_eq!(post(&listen, &format!("/orders/%23 {allowed}"), "{}"), "404");
    assert_eq!(post(&listen, &format!("/orders {allowed}"), &"x".repeat(2_000)), "413");
    // A message to blame is counted, and needs no second try.
    assert_eq!(post(&listen, &format!("/orders {allowed}"), "no json"), "422");
    let status = status(&hub, |it| it["in"]["failed"] == 1);
    assert_eq!(status["in"]["last_failure"]["topic"], "orders", "{status}");
    let admin = format!("http://{}", hub.address("admin=http://"));
    let why = run(&["why", "pipeline", "in", "--admin", &admin]);
    assert!(why.out.contains("not delivered: 1 messages") && why.out.contains("not JSON"), "{} {}", why.out, why.err);
}
