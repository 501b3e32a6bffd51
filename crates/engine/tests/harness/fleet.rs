//! A fleet as a test describes it.

use tidegate_engine::{
    BrokerLinkError, BrokerLinkOptions, BrokerLinkReport, BrokerLinkSettings, BrokerLinkState, RoutingPolicy, Settings,
};
use tidegate_mqtt::{Packet, Version};

use super::broker::{Carried, FakeBroker, Ways};
use super::world::World;
use super::{Message, everywhere_with};

/// A broker of the fleet.
#[derive(Clone)]
pub(crate) struct Broker {
    world: World,
    name: String,
}

/// Makes the broker of these settings an orchestrator.
pub(crate) fn fleet_settings(settings: &mut Settings, policy: RoutingPolicy) {
    settings.broker_links = Some(BrokerLinkSettings { policy, ..BrokerLinkSettings::default() });
}

/// Plays a story everywhere, in front of brokers of these names that hold everything and are served.
pub(crate) fn in_front_of<const N: usize>(names: [&str; N], story: impl Fn(&World, [Broker; N])) {
    everywhere_with(
        |settings| fleet_settings(settings, RoutingPolicy::TopicHash),
        |world| {
            let brokers = names.map(|name| world.broker(name));
            story(world, brokers);
        },
    );
}

/// How an orchestrator that returns speaks to a broker.
pub(crate) fn lasting() -> BrokerLinkOptions {
    BrokerLinkOptions { version: None, user_name: None, password: None, lasting: true }
}

impl World {
    /// Adds a broker to the fleet, which serves then.
    #[track_caller]
    pub(crate) fn broker(&self, name: &str) -> Broker {
        let broker = self.broker_with(name, lasting(), Ways::default());
        assert_eq!(broker.state(), BrokerLinkState::Serving, "{:?}", broker.report());
        broker
    }

    /// Adds a broker that knows MQTT 3.1.1 and behaves otherwise as any.
    #[track_caller]
    pub(crate) fn old_broker(&self, name: &str) -> Broker {
        let options = BrokerLinkOptions { version: Some(Version::V311), ..lasting() };
        let broker = self.broker_with(name, options, Ways::default());
        assert_eq!(broker.state(), BrokerLinkState::Serving, "{:?}", broker.report());
        broker
    }

    /// Adds a broker, whatever comes of it.
    pub(crate) fn broker_with(&self, name: &str, options: BrokerLinkOptions, ways: Ways) -> Broker {
        let broker = self.broker_unknown(name, ways);
        broker.set(options);
        broker
    }

    /// A broker that the engine does not know.
    pub(crate) fn broker_unknown(&self, name: &str, ways: Ways) -> Broker {
        self.0.borrow_mut().add_broker(name, ways);
        Broker { world: self.clone(), name: name.to_owned() }
    }

    /// The connection of a dead orchestrator to a broker becomes one of this process: `broker` as the dead one knew it.
    pub(crate) fn take_over_broker(&self, broker: &Broker, name: &str) -> Broker {
        let taken = broker.world.0.borrow_mut().brokers.remove(&broker.name).expect("a broker of this name");
        self.0.borrow_mut().brokers.insert(name.to_owned(), taken);
        Broker { world: self.clone(), name: name.to_owned() }
    }

    /// A broker dies in the middle of whatever happens.
    pub(crate) fn kill_broker(&self, name: &str, survives: usize) {
        self.0.borrow_mut().kill_broker(name, survives);
    }

    /// The network between the engine and a broker breaks.
    pub(crate) fn cut_broker(&self, name: &str, survives: usize) {
        self.0.borrow_mut().cut_broker(name, survives);
    }

    /// How all broker links are.
    pub(crate) fn broker_links(&self) -> Vec<BrokerLinkReport> {
        self.run();
        self.engine(0, |engine, _| engine.questions().broker_links())
    }

    /// Messages that brokers owe.
    pub(crate) fn owed(&self) -> u64 {
        self.broker_links().iter().map(BrokerLinkReport::owed).sum()
    }
}

impl Broker {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is connected to this orchestrator.
    pub(crate) fn is_of(&self, world: &World) -> bool {
        std::rc::Rc::ptr_eq(&self.world.0, &world.0)
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut FakeBroker) -> T) -> T {
        self.world.0.borrow_mut().with_broker(&self.name, act)
    }

    /// Tells the engine of it, or that it is spoken to otherwise from now on.
    pub(crate) fn set(&self, options: BrokerLinkOptions) {
        self.world.0.borrow_mut().configured.insert(self.name.clone(), options.clone());
        self.world
            .engine(0, |engine, now| engine.fleet().set_broker_link(now, &self.name, options))
            .expect("an orchestrator");
        self.world.run();
    }

    /// Tells another member of it.
    pub(crate) fn set_at(&self, member: u16) {
        self.world
            .engine(member, |engine, now| engine.fleet().set_broker_link(now, &self.name, lasting()))
            .expect("an orchestrator");
        self.world.run();
    }

    /// The next process is not configured with it.
    pub(crate) fn leave_out(&self) {
        self.world.0.borrow_mut().configured.remove(&self.name);
    }

    /// How the engine sees it.
    #[track_caller]
    pub(crate) fn report(&self) -> BrokerLinkReport {
        let report = self.world.broker_links().into_iter().find(|report| report.name == self.name);
        report.unwrap_or_else(|| panic!("{} is not in the fleet", self.name))
    }

    #[track_caller]
    pub(crate) fn state(&self) -> BrokerLinkState {
        self.report().state
    }

    /// Messages that the engine counts as its.
    #[track_caller]
    pub(crate) fn owed(&self) -> u64 {
        self.report().owed()
    }

    /// Changes its ways; steps that waited because of the old ones continue.
    pub(crate) fn now(&self, change: impl FnOnce(&mut Ways)) {
        // Packets sent before the change come before it.
        self.world.run();
        self.with(|broker| {
            change(&mut broker.ways);
            broker.go_on();
        });
        self.world.run();
    }

    /// It dies with everything that it has not sent; its sessions are on its disk.
    pub(crate) fn die(&self) {
        self.world.run();
        self.world.0.borrow_mut().kill_broker(&self.name, usize::MAX);
        self.world.run();
    }

    /// The same, and it forgets all sessions.
    pub(crate) fn die_and_forget(&self) {
        self.die();
        self.forget();
    }

    /// It forgets all sessions.
    pub(crate) fn forget(&self) {
        self.with(FakeBroker::forget_sessions);
    }

    /// It writes its sessions to its disk.
    pub(crate) fn save(&self) {
        self.with(FakeBroker::save);
    }

    /// The network breaks and the broker lives on.
    pub(crate) fn cut(&self) {
        self.world.run();
        self.world.0.borrow_mut().cut_broker(&self.name, 0);
        self.world.run();
    }

    /// It takes connections again, and the engine returns to it.
    pub(crate) fn come_back(&self) {
        self.with(|broker| broker.ways.reachable = true);
        self.world.advance(5_000);
    }

    /// PUBLISH packets that it has read since the last time, whether it has taken the messages or not.
    pub(crate) fn offered(&self) -> u32 {
        self.world.run();
        self.with(|broker| std::mem::take(&mut broker.offered))
    }

    /// Messages that it has taken over since the last time.
    pub(crate) fn taken(&self) -> Vec<Carried> {
        self.world.run();
        self.with(|broker| std::mem::take(&mut broker.taken))
    }

    /// Their payloads.
    pub(crate) fn payloads(&self) -> Vec<String> {
        self.taken().iter().map(Carried::text).collect()
    }

    /// Filters that it was asked for since the last time.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.world.run();
        self.with(|broker| std::mem::take(&mut broker.asked))
    }

    /// Filters that it was to forget since the last time.
    pub(crate) fn forgotten(&self) -> Vec<String> {
        self.world.run();
        self.with(|broker| std::mem::take(&mut broker.forgotten))
    }

    /// The value that it retains for a topic.
    pub(crate) fn kept(&self, topic: &str) -> Option<String> {
        self.world.run();
        self.with(|broker| broker.kept(topic).map(Carried::text))
    }

    /// Filters that it holds.
    pub(crate) fn held(&self) -> Vec<String> {
        self.world.run();
        self.with(|broker| broker.held())
    }

    /// A client of the broker alone publishes to it.
    pub(crate) fn publish(&self, message: &Message) {
        let carried = Carried {
            topic: message.topic.clone(),
            payload: message.payload.clone(),
            qos: message.qos,
            retain: message.retain,
            expiry: message.expiry,
            payload_format: message.payload_format,
            content_type: message.content_type.clone(),
            response_topic: message.response_topic.clone(),
            correlation_data: message.correlation_data.clone(),
            user_properties: message.user_properties.clone(),
        };
        self.carry(&carried);
    }

    /// The same with a message as another broker has had it.
    pub(crate) fn carry(&self, carried: &Carried) {
        self.with(|broker| broker.route(carried));
        self.world.run();
    }

    /// Says something on its connections that no honest broker says.
    pub(crate) fn say_bytes(&self, bytes: &[u8]) {
        self.world.run();
        self.with(|broker| {
            for line in broker.lines() {
                broker.outbox.push((line, bytes.to_vec()));
            }
        });
        self.world.run();
    }

    pub(crate) fn say(&self, version: Version, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.encode(version, &mut bytes).expect("a packet that can be encoded");
        self.say_bytes(&bytes);
    }

    pub(crate) fn drain(&self) -> Result<(), BrokerLinkError> {
        let result = self.world.engine(0, |engine, now| engine.fleet().drain_broker_link(now, &self.name));
        self.world.run();
        result
    }

    pub(crate) fn remove(&self, force: bool) -> Result<(), BrokerLinkError> {
        let result = self.world.engine(0, |engine, now| engine.fleet().remove_broker_link(now, &self.name, force));
        if result.is_ok() {
            self.world.0.borrow_mut().configured.remove(&self.name);
        }
        self.world.run();
        result
    }
}
