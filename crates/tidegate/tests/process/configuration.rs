//! `tidegate config ...`.

use crate::broker::{Folder, command, run};

#[test]
fn a_right_file_is_called_right() {
    let folder = Folder::new();
    let file = folder.write("t.toml", "[queue]\noverflow = \"block\"\n");
    let ended = run(&["config", "check", &file]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out, format!("{file}: right\n"));
}

#[test]
fn a_file_is_checked_with_the_flags_of_its_start() {
    let folder = Folder::new();
    let file = folder.write("node.toml", "[cluster]\nbus = \"embedded://bus\"\n");
    let alone = run(&["config", "check", &file]);
    assert!(alone.code == Some(1) && alone.err.contains("add --node NAME"), "{}", alone.err);
    let named = run(&["config", "check", &file, "--node", "a"]);
    assert_eq!((named.code, named.out), (Some(0), format!("{file}: right\n")), "{}", named.err);
    let wrong = run(&["config", "check", &file, "--node", "a", "--set", "queue.overflow=blok"]);
    assert!(wrong.code == Some(1) && wrong.err.contains("--set queue.overflow=blok"), "{}", wrong.err);
    let two = run(&["config", "check", &file, "--config", &file]);
    assert_eq!(two.code, Some(2), "{}", two.err);
}

#[test]
fn every_problem_of_a_wrong_file_is_reported() {
    let folder = Folder::new();
    let file = folder.write("t.toml", "[queue]\noverflow = \"blok\"\nmax = 1\n");
    let ended = run(&["config", "check", &file]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    let expected = format!(
        "error: `queue.overflow` must be \"drop-newest\", \"drop-oldest\", \"disconnect\", \"block\", \"keep-last\" or \"reject\", not \"blok\"\n \
         --> {file}:2:12\n  |\n2 | overflow = \"blok\"\n  |            ^^^^^^\nhint: did you mean \"block\"?\n\n\
         error: unknown key `max` in [queue]\n --> {file}:3:1\n  |\n3 | max = 1\n  | ^^^\n\
         hint: `tidegate config explain queue` lists the keys of this section\n\n2 problems in the configuration\n"
    );
    assert_eq!(ended.err, expected);
}

#[test]
fn files_of_groups_are_checked_with_the_configuration() {
    let folder = Folder::new();
    let groups = folder.write("groups.toml", "definer = \"city\"\n[[group]]\nname = \"fast\"\nwhen = \"speed > 50\"\n");
    let text = format!("[addresses]\nenabled = true\n[context]\nenabled = true\ngroups = {groups:?}\n");
    let ended = run(&["config", "check", &folder.write("t.toml", &text)]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.starts_with("error: context.groups: `group.when` is wrong: "), "{}", ended.err);
    assert!(ended.err.contains(&format!("--> {groups}:4:8\n")), "{}", ended.err);
}

#[test]
fn the_token_of_the_admin_listener_is_checked() {
    let folder = Folder::new();
    let check = |token: &str| {
        let text = format!("[admin]\ntoken_file = {token:?}\n");
        run(&["config", "check", &folder.write("t.toml", &text)])
    };
    let missing = check(&folder.file("none"));
    assert!(missing.code == Some(1) && missing.err.contains("admin.token_file"), "{}", missing.err);
    let short = check(&folder.write("short", "secret"));
    assert!(short.code == Some(1) && short.err.contains("shorter than 16"), "{}", short.err);
    assert!(!short.err.contains("secret"), "{}", short.err);
    assert_eq!(check(&folder.write("token", "0123456789abcdef")).code, Some(0));
}

#[test]
fn a_missing_file_is_named() {
    let folder = Folder::new();
    let file = folder.file("none.toml");
    let ended = run(&["config", "check", &file]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.starts_with(&format!("error: cannot read {file}: ")), "{}", ended.err);
    assert_eq!(run(&["--config", &file]).code, Some(2));
}

#[test]
fn a_file_without_an_end_is_not_read_for_ever() {
    let ended = run(&["config", "check", "/dev/zero"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.starts_with("error: cannot read /dev/zero: it is larger than "), "{}", ended.err);
}

#[test]
fn the_settings_in_force_are_shown_with_their_source() {
    let folder = Folder::new();
    let file = folder.write("t.toml", "[node]\nname = \"a\"\n[queue]\nmax_messages = 5\n");
    let arguments = ["config", "show", "--config", &file, "--set", "queue.max_messages=6", "--listen", "1884"];
    let output = command(&arguments).env("TIDEGATE__SYS__INTERVAL", "20s").output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        shown,
        format!(
            "[node]\nname = \"a\"  # {file}:2:8\n\n\
             [[listener]]\naddress = \"127.0.0.1:1884\"  # command line, --listen 1884\n\n\
             [queue]\nmax_messages = 6  # command line, --set queue.max_messages=6\n\n\
             [sys]\ninterval = \"20s\"  # environment variable TIDEGATE__SYS__INTERVAL\n"
        )
    );
    let all = run(&["config", "show", "--effective"]);
    assert!(all.out.contains("\noverflow = \"drop-newest\"   "), "{}", all.out);
    let again = folder.write("all.toml", &all.out);
    assert_eq!(run(&["config", "check", &again]).code, Some(0));
}

#[test]
fn keys_are_explained() {
    let ended = run(&["config", "explain", "listener.0.max_packet_size"]);
    assert_eq!(ended.code, Some(0));
    assert_eq!(
        ended.out,
        "listener.max_packet_size\n\nLongest packet taken from a client; MQTT 5 clients are notified.\n\n\
         takes        a size, 20B to 268435455B\ndefault      \"2MiB\"\n\
         environment  TIDEGATE__LISTENER__0__MAX_PACKET_SIZE\n"
    );
    assert_eq!(
        run(&["config", "explain", "keep_qos0_offline"]).out,
        run(&["config", "explain", "queue.keep_qos0_offline"]).out
    );
    assert!(run(&["config", "explain", "queue"]).out.contains("keep_qos0_offline"));
    assert!(run(&["config", "explain"]).out.contains("shutdown"));
    let ended = run(&["config", "explain", "queue.overflw"]);
    assert_eq!(ended.code, Some(2));
    assert_eq!(ended.err, "error: unknown key `overflw` in [queue]\nhint: did you mean `overflow`?\n");
}

#[test]
fn a_configuration_of_mosquitto_is_converted() {
    let folder = Folder::new();
    let theirs =
        folder.write("mosquitto.conf", "listener 1883 127.0.0.1\nmax_queued_messages 5\nallow_anonymous true\n");
    let ended = run(&["config", "convert", &theirs]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains(&format!("[queue]\nmax_messages = 5  # {theirs}:2\n")), "{}", ended.out);
    assert!(ended.err.contains(&format!("{theirs}:2  carried  max_queued_messages 5\n")), "{}", ended.err);
    assert!(ended.err.ends_with("3 lines carried, 0 changed, 0 refused\n"), "{}", ended.err);
    let diff = run(&["config", "convert", &theirs, "--diff"]).out;
    assert!(diff.contains("- max_queued_messages 5\n+ queue.max_messages = 5\n"), "{diff}");
    let ours = folder.file("ours.toml");
    let written = run(&["config", "convert", &theirs, "--output", &ours]);
    assert_eq!((written.code, written.out.as_str()), (Some(0), ""));
    assert_eq!(std::fs::read_to_string(&ours).unwrap(), ended.out);
    assert_eq!(run(&["config", "check", &ours]).code, Some(0));
    let again = run(&["config", "convert", &theirs, "--output", &ours]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("it is there already"), "{}", again.err);
    assert_eq!(run(&["config", "convert", &folder.file("none")]).code, Some(1));
}

#[test]
fn the_exit_code_reports_lines_without_a_conversion() {
    let folder = Folder::new();
    let theirs = folder.write("mosquitto.conf", "listener 1883\nallow_anonymous true\nplugin /rules.so\n");
    let ended = run(&["config", "convert", &theirs, "--json"]);
    assert_eq!(ended.code, Some(3));
    let all: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(all["left_out"], true);
    let outcomes: Vec<_> = all["lines"].as_array().unwrap().iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes, ["refused", "refused", "refused"]);
    assert!(all["lines"].as_array().unwrap().iter().all(|line| line["outcome"] == "carried" || line["why"] != ""));
    assert!(!all["toml"].as_str().unwrap().contains("allow_anonymous = true"));
    let ended = run(&["config", "convert", "/etc/passwd"]);
    assert_eq!(ended.code, Some(2));
    assert_eq!(
        ended.err,
        "error: /etc/passwd: this is no mosquitto.conf, and no configuration of EMQX, HiveMQ, NanoMQ, RabbitMQ, VerneMQ\n"
    );
}

/// The output of `config convert --json` for an open listener with this line.
fn json_of(folder: &Folder, key: &str, file: &str) -> serde_json::Value {
    let text = format!("listener 1883\nallow_anonymous true\n{key} {file}\n");
    serde_json::from_str(&run(&["config", "convert", &folder.write("mosquitto.conf", &text), "--json"]).out).unwrap()
}

#[test]
fn the_exit_code_reports_files_that_cannot_be_used() {
    let folder = Folder::new();
    let converted = |key: &str, file: &str| {
        let text = format!("listener 1883\nallow_anonymous true\n{key} {file}\n");
        run(&["config", "convert", &folder.write("mosquitto.conf", &text)])
    };
    for (key, text, why) in
        [("password_file", "ann:secret\n", "not hashed"), ("acl_file", "Topic readwrite a\n", "Topic readwrite a")]
    {
        let ended = converted(key, &folder.write("file", text));
        assert_eq!(ended.code, Some(3), "{}", ended.err);
        assert!(ended.err.contains("The result cannot be run as it is:") && ended.err.contains(why), "{}", ended.err);
        // On the machine of the broker it may be there.
        let none = folder.file("none");
        let ended = converted(key, &none);
        assert_eq!(ended.code, Some(0));
        assert!(ended.err.contains(&format!("note: the broker needs {none}, which is not here\n")), "{}", ended.err);
        let all = json_of(&folder, key, &none);
        assert_eq!(all["unchecked_files"], serde_json::json!([{ "file": none, "why": "is not here" }]));
        assert_eq!(all["problems"], serde_json::json!([]));
        let all = json_of(&folder, key, &folder.file("file"));
        assert!(all["left_out"] == true && all["problems"][0].as_str().unwrap().contains(why), "{all}");
        std::fs::remove_file(folder.file("file")).unwrap();
    }
    let wrong = folder.write("server.pem", "no certificate");
    let ended = converted(&format!("keyfile {wrong}\ncertfile"), &wrong);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert!(ended.err.contains("listener `tls-1883`") && ended.err.contains("has no certificate"), "{}", ended.err);
    assert_eq!(converted(&format!("keyfile {wrong}\ncertfile"), &folder.file("none")).code, Some(0));
    let bridge = "connection b\naddress 127.0.0.1:1\ntopic #\nbridge_cafile";
    let ended = converted(bridge, &wrong);
    assert!(ended.code == Some(3) && ended.err.contains("bridge `b`"), "{}", ended.err);
    assert_eq!(converted(bridge, &folder.file("none")).code, Some(0));
}

#[test]
fn files_that_cannot_be_read_now_are_notes() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let fifo = folder.file("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let locked = folder.write("locked", "ann:secret\n");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read any file.
    let is_readable = std::fs::File::open(&locked).is_ok();
    for (file, why, is_noted) in [(&fifo, "is a FIFO", true), (&locked, "cannot be read by this user", !is_readable)] {
        let text = format!("listener 1883\npassword_file {file}\n");
        let ended = run(&["config", "convert", &folder.write("mosquitto.conf", &text)]);
        assert_eq!(ended.code, Some(if is_noted { 0 } else { 3 }), "{}", ended.err);
        let note = format!("note: the broker needs {file}, which {why}, so it is not checked\n");
        assert_eq!(ended.err.contains(&note), is_noted, "{}", ended.err);
    }
}

#[test]
fn a_file_is_checked_although_another_one_is_missing() {
    let folder = Folder::new();
    let (missing, wrong) = (folder.file("none"), folder.write("users", "ann:secret\n"));
    let text = format!(
        "per_listener_settings true\nlistener 1883\npassword_file {missing}\nlistener 1884\npassword_file {wrong}\n"
    );
    let ended = run(&["config", "convert", &folder.write("mosquitto.conf", &text)]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert!(ended.err.contains("`password-file-2`") && ended.err.contains("not hashed"), "{}", ended.err);
}

#[test]
fn a_data_directory_in_the_kernel_is_no_right_one() {
    let folder = Folder::new();
    let ended = run(&["config", "check", &folder.write("t.toml", "[store]\ndirectory = \"/proc/x\"\n")]);
    assert_eq!(ended.code, Some(1), "{}", ended.out);
    assert!(ended.err.contains("/proc belongs to the kernel") && ended.err.contains("t.toml:2:"), "{}", ended.err);
}

/// The shapes of `crates/mosquitto-conf`: their results can be run, even those with omissions.
#[test]
fn every_converted_shape_is_a_configuration() {
    let folder = Folder::new();
    let shapes = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../mosquitto-conf/tests/shapes");
    for entry in std::fs::read_dir(shapes).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.lines().find_map(|line| line.strip_prefix("#! exit ")).unwrap().parse().ok();
        let ended = run(&["config", "convert", &path.display().to_string()]);
        assert_eq!(ended.code, code, "{}: {}", path.display(), ended.err);
        let ours = folder.write("ours.toml", &ended.out);
        let shown = run(&["config", "show", "--config", &ours]);
        assert_eq!(shown.code, Some(0), "{}: {}", path.display(), shown.err);
    }
}

#[test]
fn the_reference_of_keys_is_printed() {
    let reference = run(&["config", "reference"]);
    assert_eq!(reference.code, Some(0), "{}", reference.err);
    assert!(reference.out.contains("\n## `[queue]`\n") && reference.out.contains("\n### `overflow`\n"));
}

#[test]
fn the_keys_of_another_broker_are_printed() {
    for (broker, name, key) in
        [("mosquitto", "Mosquitto", "allow_anonymous"), ("vernemq", "VerneMQ", "allow_anonymous")]
    {
        let keys = run(&["config", "keys", broker]);
        assert_eq!(keys.code, Some(0), "{}", keys.err);
        assert!(keys.out.contains(&format!("\n## Keys of {name}\n")), "{}", keys.out);
        assert!(keys.out.contains(&format!("\n| `{key}` | ")), "{}", keys.out);
    }
}

#[test]
fn a_configuration_that_cannot_start_is_not_right() {
    let folder = Folder::new();
    let file = folder.write("file", "");
    let listener = "[[listener]]\naddress = \"mqtts://127.0.0.1:0\"\n";
    let allow = "[access]\ndefault = \"allow\"\n";
    for (text, said) in [
        (format!("{listener}certificate = \"{0}.pem\"\nkey = \"{0}.key\"\n", folder.file("none")), "none.pem"),
        (format!("[store]\ndirectory = \"{file}/data\"\n"), "is a file"),
        (format!("[store]\ndirectory = \"{file}\"\n"), "is a file"),
        (
            format!("[[auth]]\nkind = \"http\"\nurl = \"http://me:hunter2@127.0.0.1/\"\n{allow}"),
            "user name or password",
        ),
        (format!("[[auth]]\nfile = \"{}\"\n{allow}", folder.file("users")), "users"),
        (format!("[access]\nrules_file = \"{}\"\n", folder.file("rules")), "rules"),
        (format!("[access]\nacl_file = \"{}\"\n", folder.file("acl")), "acl"),
        (
            format!("[[listener]]\naddress = \"unix:{}/t.sock\"\n", folder.file("none")),
            "none of its Unix socket does not exist",
        ),
    ] {
        let config = folder.write("t.toml", &text);
        let checked = run(&["config", "check", &config]);
        assert_eq!((checked.code, checked.out.as_str()), (Some(1), ""), "{text}: {}", checked.err);
        assert!(checked.err.contains(said) && !checked.err.contains("hunter2"), "{said}: {}", checked.err);
        assert!(checked.err.contains(&format!("--> {config}:")), "its line is named: {}", checked.err);
        assert_eq!(run(&["--config", &config, "--admin", "off"]).code, Some(1), "it does not start either");
    }
    assert!(!std::path::Path::new(&folder.file("data")).exists());
    let right = folder.write("t.toml", &format!("[store]\ndirectory = \"{}/deep/data\"\n", folder.file("new")));
    assert_eq!(run(&["config", "check", &right]).code, Some(0));
    assert!(!std::path::Path::new(&folder.file("new")).exists(), "a check makes nothing");
}
