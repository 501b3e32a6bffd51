//! The file, the environment and the command line: their precedence, and the errors for slips in each.

use super::{listen, load, set};
use crate::overrides::Flags;
use crate::show::{Which, show};

#[test]
fn one_underscore_in_the_environment_is_said() {
    let said = load("", &[("TIDEGATE_QUEUE_MAX_MESSAGE", "5")], Flags::default()).unwrap_err();
    assert_eq!(
        said,
        "error: section and key are separated by two underscores\n  --> environment variable TIDEGATE_QUEUE_MAX_MESSAGE\n\
         hint: did you mean `TIDEGATE__QUEUE__MAX_MESSAGES`?\n"
    );
    let said = load("", &[("TIDEGATE_QUEUE_MAX", "5")], Flags::default()).unwrap_err();
    assert!(said.contains("did you mean `TIDEGATE__QUEUE__MAX_"), "{said}");
    for other in
        ["TIDEGATE_SERVICE_HOST", "TIDEGATE_ADMIN_SERVICE_PORT_HTTP", "TIDEGATE_ADMIN_PORT_80_TCP", "TIDEGATE_SEED"]
    {
        assert!(load("", &[(other, "5")], Flags::default()).is_ok(), "{other} is of others");
    }
}

#[test]
fn flags_win_over_the_environment_over_the_file() {
    let text = "[queue]\nmax_messages = 1\nmax_bytes = \"1KiB\"\noverflow = \"block\"\n";
    let environment = [("TIDEGATE__QUEUE__MAX_MESSAGES", "2"), ("TIDEGATE__QUEUE__MAX_BYTES", "2KiB")];
    let config = load(text, &environment, set("queue.max_messages", "3")).unwrap();
    assert_eq!(
        show(&config, Which::Set),
        "[queue]\n\
         max_messages = 3    # command line, --set queue.max_messages=3\n\
         max_bytes = \"2KiB\"  # environment variable TIDEGATE__QUEUE__MAX_BYTES\n\
         overflow = \"block\"  # t.toml:4:12\n"
    );
}

#[test]
fn listen_flags_replace_the_listeners_of_the_file() {
    let text = "[[listener]]\naddress = \"1\"\nmaximum_qos = 0\n[[listener]]\naddress = \"2\"\n";
    let config = load(text, &[], listen(&["3"])).unwrap();
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:3");
    assert_eq!(config.listeners[0].maximum_qos, 2);
}

#[test]
fn listeners_are_set_and_added_by_number() {
    let environment = [
        ("TIDEGATE__LISTENER__1__ADDRESS", "1884"),
        ("TIDEGATE__LISTENER__1__MAXIMUM_QOS", "1"),
        ("TIDEGATE__LISTENER__0__RECEIVE_MAXIMUM", "7"),
    ];
    let config = load("", &environment, Flags::default()).unwrap();
    assert_eq!(config.listeners.len(), 2);
    assert_eq!(config.listeners[0].receive_maximum, 7);
    assert_eq!(config.listeners[1].address.to_string(), "127.0.0.1:1884");
    assert_eq!(config.listeners[1].maximum_qos, 1);
    let said = load("", &[("TIDEGATE__LISTENER__2__ADDRESS", "1")], Flags::default()).unwrap_err();
    assert_eq!(
        said,
        "error: `listener.2.address` names a listener that is not there; there are 1\n  \
         --> environment variable TIDEGATE__LISTENER__2__ADDRESS\n"
    );
}

#[test]
fn an_empty_variable_does_not_turn_off_the_files_value() {
    let text = "[store]\ndirectory = \"data\"\n";
    let said = load(text, &[("TIDEGATE__STORE__DIRECTORY", "")], Flags::default()).unwrap_err();
    assert_eq!(
        said,
        "error: `store.directory` must not be empty\n  --> environment variable TIDEGATE__STORE__DIRECTORY\n\
         hint: write a value, or unset TIDEGATE__STORE__DIRECTORY\n"
    );
    for key in
        ["CLUSTER__NAME", "CLUSTER__BUS", "CLUSTER__LISTEN", "MIRROR__BUS", "MIRROR__NAME", "ORCHESTRATOR__BROKERS"]
    {
        let said = load("", &[(&format!("TIDEGATE__{key}"), "")], Flags::default()).unwrap_err();
        assert!(said.contains("must not be empty"), "{said}");
    }
    // The deliberate ways to turn it off.
    assert_eq!(load(text, &[], set("store.directory", "")).unwrap().store.directory, None);
    assert!(load("", &[("TIDEGATE__DEAD_LETTER__TOPIC", "")], Flags::default()).is_ok());
}

#[test]
fn slips_outside_the_file_are_said_with_their_source() {
    let said = load("", &[("TIDEGATE__QUEUE__MAX_MESAGES", "2")], Flags::default()).unwrap_err();
    assert_eq!(
        said,
        "error: unknown key `max_mesages` in [queue]\n  --> environment variable TIDEGATE__QUEUE__MAX_MESAGES\n\
         hint: did you mean `max_messages`?\n"
    );
    let said = load("", &[], set("limits.max_inflight", "-1")).unwrap_err();
    assert_eq!(
        said,
        "error: `limits.max_inflight` must be a whole number, 1 to 65535, not \"-1\"\n  \
         --> command line, --set limits.max_inflight=-1\n"
    );
    let said = load("", &[], set("listener.address", "1")).unwrap_err();
    assert!(said.contains("a [[listener]] is named by its number: listener.0.KEY"), "{said}");
    let said = load("", &[], set("max_messages", "1")).unwrap_err();
    assert!(said.contains("it is a key of [queue]"), "{said}");
}
