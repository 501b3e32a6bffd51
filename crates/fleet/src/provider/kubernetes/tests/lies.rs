//! An API server that is busy, hangs, or gives malformed answers.

use super::server::Answer;
use super::*;

fn error_of(exchanges: Vec<Exchange>) -> String {
    let (mut provider, recorded) = opened(exchanges);
    let error = provider.allocate(&wanted("tidegate-broker-2")).unwrap_err().to_string();
    recorded.finish();
    error
}

fn answer_of(answer: Answer) -> String {
    error_of(vec![Exchange::get_to(SCALE_PATH, answer)])
}

#[test]
fn a_busy_one_is_left_alone() {
    let busy = Answer::Says(429, "Retry-After: 3600\r\n", "{}".to_owned());
    let (mut provider, recorded) = opened(vec![Exchange::get_to(SCALE_PATH, busy)]);
    let mut error = || provider.allocate(&wanted("tidegate-broker-2")).unwrap_err().to_string();
    assert!(error().contains("busy (429) and is left alone for 60 s"));
    // No second request is sent: none is expected.
    assert!(error().contains("is left alone for"));
    assert!(provider.observe(Look::Everything).unwrap_err().to_string().contains("is left alone for"));
    recorded.finish();
}

#[test]
fn one_that_hangs_is_given_up() {
    assert!(answer_of(Answer::Stalls).contains("does not answer: timeout"));
}

#[test]
fn one_that_closes_is_asked_once_more() {
    let error =
        error_of(vec![Exchange::get_to(SCALE_PATH, Answer::Closes), Exchange::get_to(SCALE_PATH, Answer::Closes)]);
    assert!(error.contains("does not answer"), "{error}");
}

#[test]
fn a_malformed_answer_is_an_error() {
    let says = |status, text: &str| answer_of(Answer::Says(status, "", text.to_owned()));
    for text in [
        "",
        "<html>",
        "[]",
        "{\"metadata\":{},\"spec\":{\"replicas\":-1}}",
        "{\"metadata\":{},\"spec\":{\"replicas\":\"2\"}}",
    ] {
        assert!(says(200, text).contains("is not understood"), "{text}");
    }
    assert!(answer_of(Answer::BreaksOff("{".to_owned())).contains("does not answer"));
    assert!(answer_of(Answer::Says(302, "Location: https://192.0.2.1/\r\n", String::new())).contains("answers 302"));
    assert!(says(500, "\u{1b}[2Jgone").contains("answers 500"));
    assert!(!says(500, "\u{1b}[2Jgone").contains('\u{1b}'));
}

#[test]
fn a_change_with_another_result_is_an_error() {
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SCALE_PATH, 200, SCALE),
        Exchange::put(
            SCALE_PATH,
            serde_json::json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": "tidegate-broker", "namespace": "messaging", "resourceVersion": "224"},
                "spec": {"replicas": 3},
            }),
            200,
            SCALE,
        ),
    ]);
    let error = provider.allocate(&wanted("tidegate-broker-2")).unwrap_err().to_string();
    assert!(error.contains("3 replicas were asked for, and 2 are said"), "{error}");
    recorded.finish();
}

#[test]
fn a_set_that_is_another_or_too_large_is_refused() {
    for (from, to, expected) in [
        ("\"name\": \"tidegate-broker\",\n  \"namespace\"", "\"name\": \"other\",\n  \"namespace\"", "it is \"other\""),
        ("\"replicas\": 2,\n  \"selector\"", "\"replicas\": 4000000000,\n  \"selector\"", "more than 10000 replicas"),
    ] {
        let recorded = Recorded::play(vec![Exchange::get(SET_PATH, 200, &changed(STATEFUL_SET, from, to))]);
        let error = Kubernetes::with(recorded.access(), settings()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_list_without_end_is_not_read_to_its_end() {
    let first: serde_json::Value = serde_json::from_str(PODS_1).unwrap();
    let next = format!("{PODS_PATH}&continue={}", first["metadata"]["continue"].as_str().unwrap());
    let mut exchanges = vec![Exchange::get(SET_PATH, 200, STATEFUL_SET), Exchange::get(PODS_PATH, 200, PODS_1)];
    exchanges.extend(std::iter::repeat_n(Exchange::get(&next, 200, PODS_1), 39));
    let (mut provider, recorded) = opened(exchanges);
    assert!(provider.observe(Look::Conditions).unwrap_err().to_string().contains("more than 40 pages"));
    recorded.finish();
}

#[test]
fn another_one_in_its_place_gets_no_token() {
    let (one, other) = (Recorded::play(Vec::new()), Recorded::play(Vec::new()));
    let access = super::super::access::Access { server: other.access().server, ..one.access() };
    let error = Kubernetes::with(access, settings()).unwrap_err().to_string();
    assert!(error.contains("does not answer") && error.contains("certificate"), "{error}");
    other.finish();
}
