//! The speed of a broker while it keeps acknowledged messages: QoS 1 from persistent session to persistent session.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::broker::Recipe;
use crate::bulk::{Crowd, Got};
use crate::failure::Failure;
use crate::process::cpu_seconds;

/// Bytes of a payload that say when it was sent.
const STAMP: usize = 8;

/// The measured load.
#[derive(Clone, Debug, Args)]
pub(crate) struct Throughput {
    /// Pairs of a publisher and a subscriber, each with its own topic.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..1000))]
    pairs: u16,
    /// Unacknowledged messages of each publisher.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..10_000))]
    window: u16,
    /// Bytes of each payload.
    #[arg(long, default_value_t = 64)]
    payload: usize,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds before that.
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Messages per second in all; as many as the windows allow when absent.
    #[arg(long)]
    rate: Option<u64>,
    /// Subscribers are away: every message is stored before its PUBACK, and acknowledged messages are counted.
    #[arg(long)]
    away: bool,
}

/// Samples of one kind of latency.
#[derive(Debug, Default)]
struct Latency(Vec<u32>);

impl Latency {
    fn percentile_ms(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let place = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(place).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
    }
}

/// Open messages and measured values.
struct Load {
    topics: Vec<String>,
    /// When each unacknowledged message of each publisher was sent, by packet id.
    sent: Vec<Vec<Option<Instant>>>,
    free: Vec<Vec<u16>>,
    begun: Instant,
    measures: bool,
    delivered: u64,
    acknowledged: u64,
    to_delivery: Latency,
    to_puback: Latency,
}

impl Load {
    fn on(&mut self, member: usize, got: Got<'_>) {
        match got {
            Got::Acknowledged(id) => {
                let sent =
                    self.sent.get_mut(member).and_then(|sent| sent.get_mut(usize::from(id))).and_then(Option::take);
                if let (Some(sent), Some(free)) = (sent, self.free.get_mut(member)) {
                    free.push(id);
                    if self.measures {
                        self.acknowledged += 1;
                        self.to_puback.0.push(sent.elapsed().as_micros() as u32);
                    }
                }
            }
            Got::Message(payload) if self.measures => {
                self.delivered += 1;
                if let Some(stamp) = payload.first_chunk::<STAMP>() {
                    let now = self.begun.elapsed().as_micros() as u64;
                    self.to_delivery.0.push(now.saturating_sub(u64::from_be_bytes(*stamp)) as u32);
                }
            }
            _ => {}
        }
    }
}

/// Measures and gives the figures.
pub(crate) fn run(wanted: &Throughput, recipe: &Recipe) -> Result<Value, Failure> {
    let mut broker = recipe.start()?;
    if broker.wait_until_listening(recipe.port, Duration::from_secs(30)).is_err() {
        return Err(Failure::Broker(broker.output().join(" / ")));
    }
    let pairs = usize::from(wanted.pairs);
    let mut crowd = Crowd::new(recipe.port)?;
    for number in 0..pairs {
        crowd.join(&format!("bench-publisher-{number}"), true)?;
    }
    for number in 0..pairs {
        crowd.join(&format!("bench-subscriber-{number}"), true)?;
    }
    crowd.until(2 * pairs, |got| matches!(got, Got::Greeted))?;
    for number in 0..pairs {
        crowd.subscribe(pairs + number, &format!("bench/{number}"))?;
    }
    crowd.until(pairs, |got| matches!(got, Got::Subscribed))?;
    if wanted.away {
        for number in 0..pairs {
            crowd.leave(pairs + number)?;
        }
    }
    let mut load = Load {
        topics: (0..pairs).map(|number| format!("bench/{number}")).collect(),
        sent: vec![vec![None; usize::from(wanted.window) + 1]; pairs],
        free: vec![(1..=wanted.window).rev().collect(); pairs],
        begun: Instant::now(),
        measures: false,
        delivered: 0,
        acknowledged: 0,
        to_delivery: Latency::default(),
        to_puback: Latency::default(),
    };
    press(wanted, wanted.warm_up, &mut crowd, &mut load)?;
    load.measures = true;
    let (cpu, own, begun) = (cpu_seconds(broker.pid()), cpu_seconds(std::process::id()), Instant::now());
    press(wanted, wanted.seconds, &mut crowd, &mut load)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (cpu, own) = (cpu_seconds(broker.pid()) - cpu, cpu_seconds(std::process::id()) - own);
    broker.terminate(Duration::from_secs(30))?;
    let messages = if wanted.away { load.acknowledged } else { load.delivered } as f64;
    Ok(json!({
        "messages_per_second": (messages / seconds).round(),
        "acknowledged_per_second": (load.acknowledged as f64 / seconds).round(),
        "broker_cores": (cpu / seconds * 100.0).round() / 100.0,
        "messages_per_core_second": if cpu > 0.0 { (messages / cpu).round() } else { 0.0 },
        "generator_cores": (own / seconds * 100.0).round() / 100.0,
        "puback_p50_ms": load.to_puback.percentile_ms(50),
        "puback_p99_ms": load.to_puback.percentile_ms(99),
        "delivery_p50_ms": load.to_delivery.percentile_ms(50),
        "delivery_p99_ms": load.to_delivery.percentile_ms(99),
        "in_flight": pairs * usize::from(wanted.window),
        "payload": wanted.payload,
    }))
}

/// Publishes for some seconds.
fn press(wanted: &Throughput, seconds: f64, crowd: &mut Crowd, load: &mut Load) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut payload = vec![b'.'; wanted.payload.max(STAMP)];
    let (mut published, mut turn) = (0u64, 0usize);
    while begun.elapsed().as_secs_f64() < seconds {
        let allowed = wanted.rate.map_or(u64::MAX, |rate| begun.elapsed().as_micros() as u64 * rate / 1_000_000);
        let pairs = load.topics.len();
        // Round after round, so that the pairs share what the rate allows.
        let mut idle = 0;
        while published < allowed && idle < pairs {
            turn = (turn + 1) % pairs;
            let Some(id) = load.free[turn].pop() else {
                idle += 1;
                continue;
            };
            idle = 0;
            published += 1;
            let now = Instant::now();
            payload[..STAMP].copy_from_slice(&(load.begun.elapsed().as_micros() as u64).to_be_bytes());
            load.sent[turn][usize::from(id)] = Some(now);
            crowd.publish(turn, &load.topics[turn], id, false, &payload)?;
        }
        crowd.turn(Duration::from_millis(1), |member, got| load.on(member, got))?;
    }
    Ok(())
}

/// The raw limit: batches of records appended to a file, each followed by fdatasync.
#[derive(Clone, Debug, Args)]
pub(crate) struct RawLimit {
    /// Records in a batch.
    #[arg(long, default_value_t = 512)]
    batch: usize,
    /// Bytes of a record.
    #[arg(long, default_value_t = 128)]
    record: usize,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

/// Measures the raw limit in a folder.
pub(crate) fn raw_limit(wanted: &RawLimit, folder: &std::path::Path) -> Result<Value, Failure> {
    use std::io::Write as _;
    let path = folder.join("raw-limit");
    let mut file = std::fs::File::create(&path).map_err(Failure::file("creating", &path))?;
    let batch = vec![b'.'; wanted.batch * wanted.record];
    let (begun, own) = (Instant::now(), cpu_seconds(std::process::id()));
    let mut syncs = 0u64;
    let mut latency = Latency::default();
    while begun.elapsed().as_secs_f64() < wanted.seconds {
        let one = Instant::now();
        file.write_all(&batch).map_err(Failure::file("writing", &path))?;
        file.sync_data().map_err(Failure::file("syncing", &path))?;
        latency.0.push(one.elapsed().as_micros() as u32);
        syncs += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = cpu_seconds(std::process::id()) - own;
    std::fs::remove_file(&path).map_err(Failure::file("removing", &path))?;
    Ok(json!({
        "records_per_second": (syncs as f64 * wanted.batch as f64 / seconds).round(),
        "syncs_per_second": (syncs as f64 / seconds).round(),
        "sync_p50_ms": latency.percentile_ms(50),
        "sync_p99_ms": latency.percentile_ms(99),
        "cores": (cpu / seconds * 100.0).round() / 100.0,
        "batch": wanted.batch,
        "record": wanted.record,
    }))
}
