//! An HTTP/1.1 file server. Its responses can be late, short, wrong or missing.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MODIFIED: &str = "accept-ranges: bytes\r\nlast-modified: Wed, 21 Oct 2015 07:28:00 GMT";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Right,
    /// Sends the correct response after a delay of this many milliseconds.
    Late(u64),
    Status(u16),
    /// Starts to send the correct response, but closes the connection after this many bytes of the body.
    Cut(u64),
    /// Sends this many bytes, and then nothing until the server is dropped.
    Stall(u64),
    Silence,
    /// Sends the whole file with status 200, even if a range was requested.
    Whole,
    /// Sends an ETag that differs from the ETag of the previous responses.
    OtherTag,
    /// Sends a well-formed response that is this many bytes too short.
    Less(u64),
}

#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub range: Option<String>,
    pub headers: Vec<(String, String)>,
    pub number: u64,
    /// Number of earlier requests for the same path and range.
    pub again: u64,
}

type Rule = dyn Fn(&Request) -> Answer + Send + Sync;

pub struct Server {
    port: u16,
    shared: Arc<Shared>,
}

struct File {
    bytes: Vec<u8>,
    tag: String,
}

struct Shared {
    files: HashMap<String, File>,
    rule: Box<Rule>,
    seen: Mutex<Vec<Request>>,
    times: Mutex<HashMap<(String, Option<String>), u64>>,
    under_way: AtomicU64,
    peak: AtomicU64,
    closed: AtomicBool,
}

impl Server {
    /// Starts a server for the files of a folder. Their paths begin with `/data/`.
    pub fn start(folder: &Path, rule: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let mut files = HashMap::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let tag = format!("\"{:08x}\"", crc32fast::hash(&bytes));
            files.insert(format!("/data/{name}"), File { bytes, tag });
        }
        let shared = Arc::new(Shared {
            files,
            rule: Box::new(rule),
            seen: Mutex::default(),
            times: Mutex::default(),
            under_way: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.closed.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.serve(stream.unwrap()));
            }
        });
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/data", self.port)
    }

    /// Returns the endpoint for S3 and Azure. The bucket is `data`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub fn peak(&self) -> u64 {
        self.shared.peak.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while !self.closed.load(Ordering::Relaxed) {
            let Some(request) = self.request(&mut reader) else { return };
            let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            self.peak.fetch_max(under_way, Ordering::Relaxed);
            let goes_on = self.answer(&request, &mut stream);
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            if goes_on.is_none() {
                return;
            }
        }
    }

    fn request(&self, reader: &mut impl BufRead) -> Option<Request> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let mut words = line.split_whitespace();
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let range = headers.iter().find(|(name, _)| name == "range").map(|(_, value)| value.clone());
        let mut times = self.times.lock().unwrap();
        let again = times.entry((path.clone(), range.clone())).or_default();
        let mut seen = self.seen.lock().unwrap();
        let request = Request { method, path, range, headers, number: seen.len() as u64, again: *again };
        *again += 1;
        seen.push(request.clone());
        Some(request)
    }

    fn answer(&self, request: &Request, stream: &mut TcpStream) -> Option<()> {
        let mut answer = (self.rule)(request);
        if let Answer::Late(ms) = answer {
            std::thread::sleep(Duration::from_millis(ms));
            answer = Answer::Right;
        }
        if answer == Answer::Silence {
            self.hold();
            return None;
        }
        let status = |stream: &mut TcpStream, status: u16| {
            write!(stream, "HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n").ok()
        };
        if let Answer::Status(code) = answer {
            return status(stream, code);
        }
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return status(stream, 405);
        }
        if request.path.contains("list-type=2") {
            return self.list(stream);
        }
        let path = decoded(request.path.split('?').next().unwrap_or_default());
        let Some(file) = self.files.get(&path) else { return status(stream, 404) };
        let tag = match answer {
            Answer::OtherTag => "\"other\"",
            _ => &file.tag,
        };
        let wanted = request.headers.iter().find(|(name, _)| name == "if-match");
        if wanted.is_some_and(|(_, wanted)| wanted != tag) {
            return status(stream, 412);
        }
        let len = file.bytes.len() as u64;
        let mut part = 0..len;
        let mut line = "HTTP/1.1 200 OK".to_owned();
        if let (Some(range), true) = (&request.range, answer != Answer::Whole) {
            let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            part = match (first, last) {
                ("", last) => len.saturating_sub(last.parse().unwrap())..len,
                (first, "") => first.parse().unwrap()..len,
                (first, last) => first.parse().unwrap()..(last.parse::<u64>().unwrap() + 1).min(len),
            };
            if part.start >= len {
                return status(stream, 416);
            }
            line = format!("HTTP/1.1 206 Part\r\ncontent-range: bytes {}-{}/{len}", part.start, part.end - 1);
        }
        let body = &file.bytes[part.start as usize..part.end as usize];
        let less = if let Answer::Less(bytes) = answer { bytes as usize } else { 0 };
        let body = &body[..body.len().saturating_sub(less)];
        let head = format!("{line}\r\ncontent-length: {}\r\netag: {tag}\r\n{MODIFIED}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).ok()?;
        if request.method == "HEAD" {
            return Some(());
        }
        match answer {
            Answer::Cut(bytes) => {
                stream.write_all(&body[..body.len().min(bytes as usize)]).ok()?;
                let _ = stream.shutdown(std::net::Shutdown::Both);
                None
            }
            Answer::Stall(bytes) => {
                stream.write_all(&body[..body.len().min(bytes as usize)]).ok()?;
                self.hold();
                None
            }
            _ => stream.write_all(body).ok(),
        }
    }

    fn list(&self, stream: &mut TcpStream) -> Option<()> {
        let object = |name: &str, bytes: usize| {
            format!(
                "<Contents><Key>{name}</Key><Size>{bytes}</Size>\
                 <LastModified>2015-10-21T07:28:00.000Z</LastModified></Contents>"
            )
        };
        let all = self.files.iter().map(|(path, file)| object(path.strip_prefix("/data/").unwrap(), file.bytes.len()));
        let body = format!("<ListBucketResult>{}</ListBucketResult>", all.collect::<String>());
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).ok()
    }

    fn hold(&self) {
        while !self.closed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Unescapes a path, because Google's client escapes everything except letters and digits.
fn decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| {
        let (hex, rest) = part.split_at(2);
        format!("{path}{}{rest}", char::from(u8::from_str_radix(hex, 16).unwrap()))
    })
}
