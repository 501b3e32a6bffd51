//! Owners and leaders of partitions, on a double of Kafka that the client itself brings.

use std::time::{Duration, Instant};

use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tidegate_bus::{Address, Append, Bus, LogSpec, Settings};

use crate::client::{Client, ask, log, place};
use crate::settings;

/// Ends of transactions that the double refuses: more than are asked for.
const REFUSED: usize = 1_000;

/// A client of a double with a topic `double.state` of one partition.
fn client_of(double: &MockCluster<'_, impl rdkafka::client::ClientContext>, settings: Settings) -> Client {
    let address: Address = format!("kafka://{}", double.bootstrap_servers()).parse().unwrap();
    let settings = Settings { prefix: "double".to_owned(), ..settings };
    let client = Client(Bus::open(&address, settings, std::sync::Arc::new(|_| {})).unwrap());
    client.0.know(LogSpec::fenced(log("state"), 1));
    client
}

#[test]
fn a_partition_is_found_at_its_next_leader() {
    let double = MockCluster::new(3).unwrap();
    double.create_topic("double.state", 1, 3).unwrap();
    double.partition_leader("double.state", 0, Some(1)).unwrap();
    let client = client_of(&double, Settings { max_waiting_time: Duration::from_secs(12), ..settings() });
    let state = place("state", 0);
    let before = client.bounds(&state);
    double.broker_down(1).unwrap();
    let later = ask(|done| client.0.bounds(&state, done)).unwrap();
    // The client hears from others that the dead one leads: Kafka takes some seconds to see it.
    std::thread::park_timeout(Duration::from_secs(1));
    double.partition_leader("double.state", 0, Some(2)).unwrap();
    assert_eq!(later.wait(), Ok(before));
}

#[test]
fn an_owner_with_late_records_at_its_transactions_end_stays() {
    let double = MockCluster::new(1).unwrap();
    double.create_topic("double.state", 1, 1).unwrap();
    // The shortest transactions there are: they are due after 2.5 s.
    let client = client_of(&double, Settings { max_waiting_time: Duration::from_secs(5), ..settings() });
    let state = place("state", 0);
    let owner = client.own(&state);
    double.broker_round_trip_time(1, Duration::from_millis(500)).unwrap();
    let (since, mut appended) = (Instant::now(), Vec::new());
    while since.elapsed() < Duration::from_secs(4) {
        appended.push(client.begin(&state, Append::new("x").by(owner)).unwrap());
        std::thread::park_timeout(Duration::from_millis(50));
    }
    for later in appended {
        later.wait().unwrap();
    }
}

#[test]
fn an_owner_of_a_log_that_keeps_all_awaits_no_transaction() {
    let double = MockCluster::new(1).unwrap();
    double.create_topic("double.state", 1, 1).unwrap();
    double.request_errors(RDKafkaApiKey::EndTxn, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE; REFUSED]);
    let client = client_of(&double, settings());
    let state = place("state", 0);
    let owner = client.own(&state);
    for number in 0..20 {
        client.append(&state, Append::new(format!("{number}")).by(owner)).unwrap();
    }
    let begun = (20..40).map(|number| client.begin(&state, Append::new(format!("{number}")).by(owner)).unwrap());
    for later in begun.collect::<Vec<_>>() {
        later.wait().unwrap();
    }
}
