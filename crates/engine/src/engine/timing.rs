//! A timer that is due goes to its handler.

use crate::engine::facets::TimerCalls;
use crate::flows::contexts::connecting;
use crate::flows::contexts::dealing;
use crate::flows::contexts::ending;
use crate::now::Now;
use crate::timers::Timer;

impl TimerCalls<'_> {
    pub(crate) fn handle_timer(&mut self, now: Now, timer: Timer) {
        match timer {
            Timer::Connection(key) => self.handle_connection_timer(now, key),
            Timer::Parked(key) => self.engine.waiting().give_up_parking(now, key),
            Timer::Rate(key) => self.handle_rate_timer(now, key),
            Timer::Will(session) => ending!(self.engine).handle_will_timer(now, session),
            Timer::FormerWill(session) => {
                connecting!(self.engine).drop_former_wills(session, |until| until <= now.monotonic);
            }
            Timer::Expiry(session) => self.handle_expiry_timer(now, session),
            Timer::SessionEnd(session) => ending!(self.engine).handle_session_timer(now, session),
            Timer::LoopLag => self.handle_loop_lag_timer(now),
            Timer::Pace => self.handle_pace_timer(now),
            Timer::Deals => dealing!(self.engine).handle_deal_timer(now),
            Timer::Sys => self.engine.sys_rounds().publish_sys(now),
            Timer::Receipts => self.handle_receipts_timer(),
            Timer::BrokerLink(key) => self.engine.fleet().handle_broker_link_timer(now, key),
            Timer::FormerBrokerLinks => self.engine.fleet().handle_former_timer(now),
        }
    }
}
