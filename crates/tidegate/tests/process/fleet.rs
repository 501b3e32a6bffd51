//! `tidegate fleet simulate` and `tidegate fleet trace`, as scripts use them.

use serde_json::Value;

use crate::broker::{Folder, run};

/// Half a broker's load, and seven brokers' from 300 s on.
fn step(folder: &Folder) -> String {
    let rows = (0..1500).map(|time| format!("{time},{}\n", if time < 300 { 50 } else { 700 }));
    folder.write("step.csv", &format!("time_s,rate\n{}", rows.collect::<String>()))
}

fn json(args: &[&str]) -> Value {
    let ended = run(args);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    serde_json::from_str(&ended.out).unwrap()
}

#[test]
fn scripts_get_objects_from_policies_to_outcomes() {
    let folder = Folder::new();
    let trace = step(&folder);
    let all = json(&["fleet", "simulate", &trace, "--capacity", "100", "--json"]);
    for policy in ["default", "brokel", "hpa", "holt-winters"] {
        let found = &all[policy];
        for number in ["resource", "cost", "efficiency", "missed_s", "false_positives"] {
            assert!(found[number].is_number(), "{policy} {number}");
        }
        let action = &found["actions"][0];
        assert!(action["time_s"].is_number() && action["from"].is_number() && action["to"].is_number());
        assert_eq!(action["level"], "broker");
        assert!(!action["reason"].as_str().unwrap().is_empty());
    }
    assert_eq!(all["default"]["brokers_at_the_end"], 10);
    let one = json(&["fleet", "simulate", &trace, "--capacity", "100", "--policy", "hpa", "--policy", "hpa", "--json"]);
    assert_eq!(one.as_object().unwrap().keys().collect::<Vec<_>>(), ["hpa"]);
    assert_eq!(one["hpa"], all["hpa"]);
}

#[test]
fn people_get_a_table_and_the_actions_of_a_single_policy() {
    let folder = Folder::new();
    let trace = step(&folder);
    let drawing = folder.file("step.svg");
    let ended =
        run(&["fleet", "simulate", &trace, "--message-cost", "10000", "--policy", "default", "--svg", &drawing]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(
        ended.out.contains("missed s") && ended.out.contains("a demand of 7.00 resources asks for 10"),
        "{}",
        ended.out
    );
    assert!(std::fs::read_to_string(&drawing).unwrap().starts_with("<svg"));
    let compared = run(&["fleet", "simulate", &trace, "--capacity", "100"]);
    assert!(compared.out.contains("\nholt-winters-preview "), "{}", compared.out);
    let listed = run(&["fleet", "simulate", "--list"]);
    assert!(listed.out.starts_with("default "), "{}", listed.out);
}

#[test]
fn errors_name_the_line_or_the_flag() {
    let folder = Folder::new();
    let trace = step(&folder);
    let unsorted = folder.write("unsorted.csv", "time_s,rate\n10,1\n5,1\n");
    let empty = folder.write("empty.csv", "");
    let negative = folder.write("negative.csv", "time_s,rate\n0,1\n1,-1\n");
    let cases: [(&[&str], i32, &str); 11] = [
        (&[&unsorted, "--capacity", "100"], 1, "unsorted.csv: line 3: the time 5 comes after 10"),
        (&[&empty, "--capacity", "100"], 1, "empty.csv: the trace is empty"),
        (&[&negative, "--capacity", "100"], 1, "negative.csv: line 3: a rate of -1"),
        (&["nowhere.csv", "--capacity", "100"], 1, "nowhere.csv: cannot be read"),
        (&[&trace, "--capacity", "0"], 2, "a capacity of 0 messages/s"),
        (
            &[&trace, "--capacity", "100", "--min", "3", "--max", "2"],
            2,
            "--min and --max: the maximum 2 is below the minimum 3",
        ),
        (&[&trace, "--capacity", "100", "--lower", "70%"], 2, "--lower and --upper"),
        (&[&trace, "--capacity", "100", "--policy", "fast"], 2, "no policy is called `fast`: choose one of default"),
        (&[&trace], 2, "--capacity"),
        (&[&trace, "--capacity", "100", "--smoothing", "1.5"], 2, "`1.5` is no fraction"),
        (&[&trace, "--suite"], 2, "--suite"),
    ];
    for (args, code, text) in cases {
        let ended = run(&[&["fleet", "simulate"], args].concat());
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(text), "{args:?}: {}", ended.err);
    }
}

#[test]
fn made_up_taxis_can_be_imported_and_simulated() {
    let folder = Folder::new();
    let made = run(&["fleet", "trace", "taxi", "--records", "20000"]);
    let taxis = folder.write("taxi.txt", &format!("{}nonsense\n{}\n", made.out, "x".repeat(10_000)));
    let imported = run(&["fleet", "trace", "import", &taxis, "--speed", "2"]);
    assert_eq!(imported.code, Some(0));
    assert!(imported.err.contains("20000 records of 316 taxis, 2 lines passed over"), "{}", imported.err);
    assert!(
        imported.err.contains("line 20001: not three parts")
            && imported.err.contains("line 20002: longer than 4096 bytes")
    );
    let trace = folder.write("taxi.csv", &imported.out);
    let report = json(&["fleet", "simulate", &trace, "--capacity", "100", "--policy", "default", "--json"]);
    assert!(report["default"]["time_s"].as_f64().unwrap() > 100.0);
}

#[test]
fn shapes_are_traces() {
    for shape in ["ramp", "spikes", "day"] {
        let made = run(&["fleet", "trace", shape]);
        assert_eq!(made.code, Some(0), "{}", made.err);
        assert!(made.out.starts_with("time_s,rate\n0,"), "{shape}");
    }
    let wrong = run(&["fleet", "trace", "spikes", "--length", "10m"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("shorter than the time between spikes"), "{}", wrong.err);
}
