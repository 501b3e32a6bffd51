//! Clients that connect while their partition moves: their CONNECT waits, and is taken when a home serves the partition.

use crate::connection::Phase;
use crate::connection::input::Flow;
use crate::engine::facets::HomeCalls;
use crate::event::Event;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::orchestrator::homes::MOVE_WAIT_MAX_MS;
use tidegate_mqtt::PacketType;

impl HomeCalls<'_> {
    /// A client waits with its CONNECT. Its later input stays in the socket, so no more than one read is kept here.
    pub(super) fn wait_for_move(&mut self, now: Now, key: ConnectionKey) -> Flow {
        let state = &mut self.engine.state;
        let Some(connection) = state.connections.get_mut(key) else { return Flow::Hold };
        (connection.phase, connection.paused) = (Phase::AwaitMove, true);
        // It is taken once more after the wait.
        state.counters.packets_in[PacketType::Connect as usize] -= 1;
        // A later wait of the same CONNECT is no longer.
        let deadline = connection.timer.min(now.monotonic.plus(MOVE_WAIT_MAX_MS));
        state.connections.set_connection_timer(&mut state.timers, key, deadline);
        state.events.push_back(Event::PauseReading { key });
        Flow::Hold
    }

    /// Partitions are served, here or elsewhere: takes each CONNECT that has waited. It may have to wait again.
    pub(crate) fn resume_connects(&mut self, now: Now) {
        let connections = self.engine.state.connections.iter();
        let waiting = connections.filter(|(_, connection)| connection.phase == Phase::AwaitMove);
        for key in waiting.map(|(key, _)| key).collect::<Vec<_>>() {
            let state = &mut self.engine.state;
            let Some(connection) = state.connections.get_mut(key) else { continue };
            (connection.phase, connection.paused) = (Phase::AwaitConnect, false);
            state.memory.connect_bytes += connection.unfinished_connect();
            state.events.push_back(Event::ResumeReading { key });
            self.engine.handle_input(now, key, &[]);
        }
    }
}
