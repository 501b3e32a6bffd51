//! Actions of scripts.

use crate::target::{self, Target, new_folder};
use crate::tool::{run, run_with, subscribed};

/// Runs each case against each broker that there is.
macro_rules! cases {
    ($($(#[$doc:meta])* fn $name:ident($target:ident: &Target) $body:block)+) => {
        $($(#[$doc])* fn $name($target: &Target) $body)+

        mod with_ours {
            $(#[test] fn $name() { super::$name(&super::target::ours()); })+
        }

        mod with_mosquitto {
            $(#[test] fn $name() { if let Some(target) = super::target::mosquitto() { super::$name(&target); } })+
        }
    };
}

cases! {
    fn every_version_carries_every_qos(target: &Target) {
        for version in ["31", "311", "5"] {
            for qos in ["0", "1", "2"] {
                let sub = subscribed(target, &["-t", "v/+", "-C", "1", "-q", "2", "-F", "%t %p %q", "-V", version]);
                run(target, &["pub", "-t", "v/1", "-m", "x", "-q", qos, "-V", version]).text();
                assert_eq!(sub.end().text(), format!("v/1 x {qos}\n"), "{version}");
            }
        }
    }

    fn properties_arrive(target: &Target) {
        let properties = [
            "-D", "publish", "content-type", "text/plain",
            "-D", "publish", "user-property", "k", "v",
            "-D", "publish", "user-property", "k", "w",
            "-D", "publish", "correlation-data", "xyz",
            "-D", "publish", "payload-format-indicator", "1",
            "-D", "publish", "response-topic", "r/t",
            "-D", "publish", "message-expiry-interval", "3600",
        ];
        run(target, &[&["pub", "-t", "p", "-m", "{\"x\": 1}", "-r", "-q", "1"], &properties[..]].concat()).text();
        let format = "%C|%P|%D|%F|%R|%S|%r|%q|%l|%x";
        let subscription = ["-D", "subscribe", "subscription-identifier", "5"];
        let sub = ["sub", "-t", "p", "-C", "1", "-q", "1"];
        let shown = run(target, &[&sub, &subscription[..], &["-F", format]].concat()).text();
        assert_eq!(shown, "text/plain|k:v k:w|xyz|1|r/t|5|1|1|8|7b2278223a20317d\n");
        let json = run(target, &[&sub[..], &["-V", "5", "-F", "%J"]].concat()).text();
        assert!(json.contains("\"user-properties\":[{\"k\":\"v\"},{\"k\":\"w\"}]"), "{json}");
        assert!(json.ends_with("\"payload\":{\"x\":1}}\n"), "{json}");
    }

    fn lines_arrive_complete_and_in_order(target: &Target) {
        let lines: String = (0..800).flat_map(|number| ["line ".to_owned(), number.to_string(), "\n".to_owned()]).collect();
        for qos in ["0", "1", "2"] {
            let sub = subscribed(target, &["-t", "l", "-q", qos, "-C", "800", "-i", &format!("lines-{qos}")]);
            run_with(target, &["pub", "-t", "l", "-l", "-q", qos], lines.as_bytes()).text();
            assert_eq!(sub.end().text(), lines);
        }
    }

    fn payloads_of_any_bytes(target: &Target) {
        let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let folder = new_folder();
        let file = folder.join("payload");
        std::fs::write(&file, &bytes).unwrap();
        let file = file.display().to_string();
        for arguments in [&["-s"][..], &["-f", &file]] {
            let sub = subscribed(target, &["-t", "b", "-C", "1", "-N"]);
            run_with(target, &[&["pub", "-t", "b"], arguments].concat(), &bytes).text();
            assert_eq!(sub.end().out, bytes);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Each call takes one message; the rest stays with the broker.
    fn a_session_is_emptied_message_by_message(target: &Target) {
        for (qos, version) in [("1", "311"), ("2", "311"), ("1", "5"), ("2", "5")] {
            let id = format!("worker-{qos}-{version}");
            let worker = ["sub", "-t", "jobs", "-q", qos, "-c", "-i", &id, "-V", version];
            run(target, &[&worker[..], &["-E"]].concat()).text();
            for job in ["one", "two", "three"] {
                run(target, &["pub", "-t", "jobs", "-q", qos, "-m", job]).text();
            }
            for job in ["one", "two", "three"] {
                let taken = run(target, &[&worker[..], &["-C", "1", "-W", "10"]].concat());
                assert_eq!(taken.text(), format!("{job}\n"), "QoS {qos}, {version}");
            }
            let end = ["sub", "-U", "jobs", "-E", "-i", &id, "-V", version];
            run(target, &end).text();
        }
    }

    fn the_time_of_w_is_over(target: &Target) {
        let ended = run(target, &["sub", "-t", "nothing", "-W", "1"]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(27), "timed out\n"));
        let quiet = run(target, &["rr", "-t", "nothing", "-e", "answer", "-n", "-W", "1", "--quiet"]);
        assert_eq!((quiet.code, quiet.err.as_str()), (Some(27), ""));
    }

    /// The answer to another request is ignored.
    fn a_request_gets_its_response(target: &Target) {
        let responder = subscribed(target, &["-t", "ask", "-C", "1", "-F", "%R %D", "-V", "5"]);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let data = ["-D", "publish", "correlation-data", "17"];
                run(target, &[&["rr", "-t", "ask", "-e", "answer", "-m", "hi", "-v", "-W", "20"], &data[..]].concat())
            });
            assert_eq!(responder.end().text(), "answer 17\n");
            for (data, text) in [("18", "not this"), ("17", "this")] {
                run(target, &["pub", "-t", "answer", "-m", text, "-D", "publish", "correlation-data", data]).text();
            }
            assert_eq!(asked.join().unwrap().text(), "answer this\n");
        });
    }

    fn retained_messages_are_shown_removed_or_left_out(target: &Target) {
        for name in ["r/1", "r/2", "r/3"] {
            run(target, &["pub", "-t", name, "-m", name, "-r"]).text();
        }
        let live = subscribed(target, &["-t", "r/#", "-R", "-C", "1", "-T", "r/1"]);
        let remover = run(target, &["sub", "-t", "r/#", "--retained-only", "--remove-retained", "-T", "r/2"]);
        assert_eq!(remover.text(), "r/1\nr/3\n", "it ends when the removed topics are gone");
        assert_eq!(live.end().text(), "\n", "the removal of r/3");
        let left = run(target, &["sub", "-t", "r/#", "-W", "1"]);
        assert_eq!((left.code, left.out.as_slice()), (Some(27), &b"r/2\n"[..]));
    }

    fn a_will_is_published_without_a_disconnect(target: &Target) {
        let will = ["-t", "x", "--will-topic", "will", "--will-payload", "gone", "-V", "5"];
        let watch = subscribed(target, &["-t", "will", "-C", "1", "-V", "5"]);
        let killed = subscribed(target, &will);
        killed.signal("KILL");
        assert_eq!(killed.end().code, None);
        assert_eq!(watch.end().text(), "gone\n");
        for signal in ["INT", "TERM"] {
            let watch = subscribed(target, &["-t", "will", "-C", "1", "-V", "5"]);
            let stopped = subscribed(target, &will);
            stopped.signal(signal);
            assert_eq!(stopped.end().code, Some(0));
            run(target, &["pub", "-t", "will", "-m", "no will"]).text();
            assert_eq!(watch.end().text(), "no will\n");
        }
    }

    fn a_reader_that_stops_early_is_no_failure(target: &Target) {
        let mut sub = subscribed(target, &["-t", "pipe", "-q", "1"]);
        sub.close_output();
        run(target, &["pub", "-t", "pipe", "-m", "x", "-q", "1"]).text();
        let ended = sub.end();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.err.ends_with("sent DISCONNECT success\n"), "{}", ended.err);
    }

    fn repetitions_and_filters(target: &Target) {
        let sub = subscribed(target, &["-t", "n/#", "-T", "n/no", "-C", "4", "-v"]);
        run(target, &["pub", "-t", "n/no", "-m", "x"]).text();
        run(target, &["pub", "-t", "n/yes", "-m", "x", "--repeat", "3", "--repeat-delay", "0.01"]).text();
        run(target, &["pub", "-t", "n/yes", "-n"]).text();
        assert_eq!(sub.end().text(), "n/yes x\nn/yes x\nn/yes x\nn/yes (null)\n");
    }

    fn a_rate_is_shown_instead_of_messages(target: &Target) {
        let sub = subscribed(target, &["-t", "rate", "--message-rate", "-W", "3"]);
        run_with(target, &["pub", "-t", "rate", "-l", "-q", "1"], b"1\n2\n3\n").text();
        let ended = sub.end();
        assert_eq!(ended.code, Some(27));
        let text = String::from_utf8(ended.out).unwrap();
        assert_eq!(text.lines().map(|line| line.parse::<u64>().unwrap()).sum::<u64>(), 3, "{text}");
    }

    fn flags_from_a_file(target: &Target) {
        let folder = new_folder();
        let file = folder.join("options");
        std::fs::write(&file, "# how we like it\n-F %t is %p\n-t from/file\n-q 1\n").unwrap();
        let file = file.display().to_string();
        let sub = subscribed(target, &["-o", &file, "-t", "from/line", "-C", "2"]);
        for name in ["from/file", "from/line"] {
            run(target, &["pub", "-t", name, "-m", "x"]).text();
        }
        assert_eq!(sub.end().text(), "from/file is x\nfrom/line is x\n");
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn topic_aliases_shorten_the_packets(target: &Target) {
        let sub = subscribed(target, &["-t", "a/long/topic", "-C", "3", "-F", "%t %p", "-V", "5"]);
        let alias = ["-D", "publish", "topic-alias", "1"];
        let sent = run_with(target, &[&["pub", "-t", "a/long/topic", "-l", "-d"], &alias[..]].concat(), b"1\n2\n3\n");
        assert_eq!(sent.err.matches("topic ''").count(), 2, "{}", sent.err);
        assert_eq!(sub.end().text(), "a/long/topic 1\na/long/topic 2\na/long/topic 3\n");
    }
}

#[test]
fn other_transports() {
    for target in [target::ours_on_websocket(), target::ours_on_unix_socket()] {
        every_version_carries_every_qos(&target);
        payloads_of_any_bytes(&target);
    }
}

#[test]
fn a_broker_that_is_not_there() {
    let mut target = target::ours_on_unix_socket();
    target.flags = vec!["--unix".to_owned(), "no/such/socket".to_owned()];
    let ended = run(&target, &["pub", "-t", "a", "-m", "x"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.starts_with("error: cannot connect to no/such/socket: "), "{}", ended.err);
    assert!(ended.err.contains("\nhint: "), "{}", ended.err);
    let quiet = run(&target, &["pub", "-t", "a", "-m", "x", "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(1), ""));
}
