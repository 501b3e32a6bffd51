//! The sink of NATS JetStream against a real server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

#[path = "../../bus/tests/nats/server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use server::Nats;
use tidegate_hub::{
    Batching, Content, FileSinks, Message, NatsSettings, Record, Sink, SinkError, SinkKind, SinkLane, SinkSettings,
};

fn sink(url: String) -> Box<dyn Sink> {
    sink_of(url, SinkLane { pipeline: "hot", ..SinkLane::default() })
}

fn sink_of(url: String, place: SinkLane<'_>) -> Box<dyn Sink> {
    let kind = SinkKind::Nats(NatsSettings {
        url,
        stream: "READINGS".into(),
        subject: "tidegate".into(),
        timeout: Duration::from_secs(60),
    });
    let settings = SinkSettings { name: "bus".into(), kind, batching: Batching::default(), parallel: 1 };
    settings.open(&FileSinks::default(), &place).unwrap()
}

fn record(id: u64) -> Arc<Record> {
    let content = Content::Row(vec![("n".into(), json!(id))]);
    let message = Message { id: id.to_string(), topic: format!("plant/{id}/temp"), ..Message::default() };
    Arc::new(Record::new(Arc::new(message), content))
}

/// The content of the stream: subjects and payloads.
fn stored(url: &str) -> Vec<(String, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
        let mut stream = context.get_stream("READINGS").await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut all = Vec::new();
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            all.push((message.subject.to_string(), String::from_utf8(message.payload.to_vec()).unwrap()));
        }
        all
    })
}

#[test]
fn a_batch_is_in_the_stream_once_however_often_it_comes() {
    let nats = Nats::start();
    let batch: Vec<_> = (0..3).map(record).collect();
    let mut first = sink(nats.address());
    first.write(&batch).unwrap();
    first.write(&batch[1..]).unwrap();
    // As after a crash of the hub.
    sink(nats.address()).write(&batch).unwrap();
    let expected: Vec<_> = (0..3).map(|n| (format!("tidegate.plant.{n}.temp"), format!("{{\"n\":{n}}}"))).collect();
    assert_eq!(stored(&nats.address()), expected);
}

#[test]
fn two_pipelines_and_dead_letters_share_a_stream() {
    let nats = Nats::start();
    let batch = [record(1)];
    let hot = SinkLane { pipeline: "hot", ..SinkLane::default() };
    for place in [hot, SinkLane { pipeline: "cold", ..hot }, SinkLane { dead_letters: true, ..hot }, hot] {
        sink_of(nats.address(), place).write(&batch).unwrap();
    }
    assert_eq!(stored(&nats.address()).len(), 3);
}

#[test]
fn a_record_that_is_too_large_is_refused_by_the_server() {
    let nats = Nats::start();
    let message = Message { topic: "t".into(), ..Message::default() };
    let large = Record::new(Arc::new(message), Content::Logged(vec![0; 2 << 20]));
    let outcome = sink(nats.address()).write(&[Arc::new(large)]);
    assert!(matches!(outcome, Err(SinkError::Refused(_))), "{outcome:?}");
}

#[test]
fn a_server_that_is_away_is_no_loss() {
    let mut nowhere = sink("nats://127.0.0.1:1".into());
    assert!(matches!(nowhere.write(&[record(1)]), Err(SinkError::Away(_))));
}
