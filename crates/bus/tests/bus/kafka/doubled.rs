//! What an owner's append takes, on a double of Kafka that the client itself brings.

use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tidegate_bus::{Address, Append, Bus, LogSpec, Settings};

use crate::client::{Client, log, place};
use crate::settings;

/// Ends of transactions that the double refuses: more than are asked for.
const REFUSED: usize = 1_000;

#[test]
fn an_owner_of_a_log_that_keeps_all_waits_for_no_end_of_a_transaction() {
    let double = MockCluster::new(1).unwrap();
    double.create_topic("double.state", 1, 1).unwrap();
    double.request_errors(RDKafkaApiKey::EndTxn, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE; REFUSED]);
    let address: Address = format!("kafka://{}", double.bootstrap_servers()).parse().unwrap();
    let settings = Settings { prefix: "double".to_owned(), ..settings() };
    let client = Client(Bus::open(&address, settings, std::sync::Arc::new(|_| {})).unwrap());
    client.0.know(LogSpec::fenced(log("state"), 1));
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
