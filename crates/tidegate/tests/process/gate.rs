//! A broker that is slow to hand anything out.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A way to a broker on which nothing comes back while it is shut.
pub(crate) struct Gate {
    pub(crate) at: u16,
    shut: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    pub(crate) fn before(broker: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().port();
        let shut = Arc::new((Mutex::new(false), Condvar::new()));
        let gate = Arc::clone(&shut);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(broker) = TcpStream::connect(&broker) else { continue };
                let gate = Arc::clone(&gate);
                let (mut from_client, mut to_broker) = (client.try_clone().unwrap(), broker.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut from_client, &mut to_broker));
                thread::spawn(move || carry_back(broker, client, &gate));
            }
        });
        Self { at, shut }
    }

    pub(crate) fn set(&self, shut: bool) {
        *self.shut.0.lock().unwrap() = shut;
        self.shut.1.notify_all();
    }
}

fn carry_back(mut broker: TcpStream, mut client: TcpStream, gate: &(Mutex<bool>, Condvar)) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = broker.read(&mut bytes) {
        drop(gate.1.wait_while(gate.0.lock().unwrap(), |shut| *shut).unwrap());
        if client.write_all(&bytes[..length]).is_err() {
            return;
        }
    }
}
