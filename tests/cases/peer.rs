//! A listener that plugins talk to: what a call did is told to somebody outside of its fence, and
//! a call waits there until it is let go.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Told {
    words: Vec<String>,
    held: Vec<TcpStream>,
    let_go: bool,
}

/// The listener; what it hears is answered at once, but for `hold`.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    told: Arc<(Mutex<Told>, Condvar)>,
}

impl Peer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let told = Arc::<(Mutex<Told>, Condvar)>::default();
        let shared = told.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || hear(stream, &shared));
            }
        });
        Self { address, told }
    }

    /// Waits until somebody is held, for `patience` at most.
    pub(crate) fn wait_for_hold(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let (told, changed) = &*self.told;
        let mut told = told.lock().expect("no panic");
        while told.held.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            told = changed.wait_timeout(told, left).expect("no panic").0;
        }
        true
    }

    /// Lets everybody go, now and from now on.
    pub(crate) fn let_go(&self) {
        let mut told = self.told.0.lock().expect("no panic");
        told.let_go = true;
        told.held.clear();
    }

    /// Every word that was told, in the order in which it came.
    pub(crate) fn words(&self) -> Vec<String> {
        self.told.0.lock().expect("no panic").words.clone()
    }
}

fn hear(stream: TcpStream, shared: &(Mutex<Told>, Condvar)) {
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let mut stream = reader.into_inner();
    let (told, changed) = shared;
    let mut told = told.lock().expect("no panic");
    match line.trim_end() {
        "hold" if told.let_go => {}
        "hold" => {
            told.held.push(stream);
            changed.notify_all();
        }
        word => {
            told.words.push(word.to_owned());
            drop(told);
            // Whoever told it may be gone.
            let _ = stream.write_all(b"!");
        }
    }
}
