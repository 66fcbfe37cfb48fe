//! Compares three ways to read a dataset: over HTTP from a server on this machine that delays each response, from
//! disk, and with plain GETs one at a time. Then measures a second read through a cache on disk.
//!
//! `cargo run --release -p shardpack-store --example rates -- DATASET [MILLISECONDS]`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing)]

#[path = "../tests/store/server/mod.rs"]
mod server;

use server::{Answer, Server};
use shardpack_loader::{Loader, LoaderOptions};
use shardpack_reader::{Dataset, DatasetOptions};
use shardpack_store::{StoreOptions, open};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap());
    let wait: u64 = arguments.next().map_or(50, |text| text.parse().unwrap());
    let local = Dataset::open(&folder).unwrap();
    let server = Server::start(&folder, move |_| Answer::Late(wait));
    let bytes: u64 = local.shards().map(|shard| shard.bytes).sum();
    println!("{} samples, {} MB, {wait} ms before each answer", local.len(), bytes / 1_000_000);
    for pass in ["cold", "warm"] {
        rate(&format!("disk, stream, {pass}"), bytes, || stream(&local));
    }
    rate("sequential GETs of 8 MiB", bytes, || local.shards().for_each(|shard| get(&server, &shard.name, shard.bytes)));
    for pass in 0..2 {
        let remote = open(&server.url(), &DatasetOptions::new(), &StoreOptions::default()).unwrap();
        rate(&format!("HTTP, stream, {pass}"), bytes, || stream(&remote));
        println!("  {:?}", remote.traffic());
    }
    rate("disk, loader", bytes, || load(&local));
    let remote = open(&server.url(), &DatasetOptions::new(), &StoreOptions::default()).unwrap();
    rate("HTTP, loader", bytes, || load(&remote));
    println!("  {:?}", remote.traffic());
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { cache: Some(folder.path().join("cache")), ..StoreOptions::default() };
    for epoch in ["first, filling", "second, from"] {
        let remote = open(&server.url(), &DatasetOptions::new(), &options).unwrap();
        rate(&format!("{epoch} the cache, stream"), bytes, || stream(&remote));
        rate("disk, stream, measured again", bytes, || stream(&local));
    }
    let remote = open(&server.url(), &DatasetOptions::new(), &options).unwrap();
    rate("from the cache, loader", bytes, || load(&remote));
    println!("  {:?}", remote.traffic().cache);
    rate("disk, loader, measured again", bytes, || load(&local));
}

fn rate(what: &str, bytes: u64, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    println!("{what}: {:.0} MB/s", bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
}

fn stream(dataset: &Dataset) {
    let mut stream = dataset.stream().unwrap();
    while let Some(record) = stream.next_record() {
        record.unwrap();
    }
}

fn load(dataset: &Dataset) {
    let options = LoaderOptions::default().batch_size(4).cube(shardpack_loader::CubeMode::Raw);
    let mut loader = Loader::open(dataset, options).unwrap();
    while let Some(batch) = loader.next_batch() {
        batch.unwrap();
    }
}

fn get(server: &Server, name: &str, bytes: u64) {
    let url = server.url();
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let end = bytes.min(at + (8 << 20));
        write!(stream, "GET /data/{name} HTTP/1.1\r\nrange: bytes={at}-{}\r\n\r\n", end - 1).unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let mut left = end - at;
        while left > 0 {
            let most = usize::try_from(left).unwrap().min(buffer.len());
            left -= stream.read(&mut buffer[..most]).unwrap() as u64;
        }
        at = end;
    }
}
