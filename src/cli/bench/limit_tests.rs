use super::*;

/// Returns an epoch of two seconds with 1,000 samples of 100 kB, in which four cores only decode.
fn epoch() -> Epoch {
    Epoch {
        seconds: 2.0,
        cpu_s: 7.8,
        queued_s: Some(0.1),
        batches: 32,
        samples: 1000,
        output_bytes: 600_000_000,
        read_bytes: 100_000_000,
        disk_bytes: Some(0),
        fetched_bytes: 0,
        read_s: 0.1,
        crc_s: 0.1,
        decode_s: 7.7,
        waited_for_data_s: 0.0,
        waited_for_slot_s: 0.0,
        consumer_wait_s: 1.9,
        queue_fill: 0.1,
        skipped: 0,
    }
}

fn workload() -> Workload {
    Workload {
        threads: 4,
        cores: 4,
        batch_size: 32,
        slots: 3,
        single_reads: false,
        dataset_bytes: 100_000_000,
        memory_bytes: Some(1_000_000_000),
        content: WorkloadContent::Pictures { side: None, in_parts: true, short_side: Some(375.0) },
        on_device: false,
    }
}

fn pictures(side: u32, in_parts: bool, short_side: f64) -> WorkloadContent {
    WorkloadContent::Pictures { side: Some(side), in_parts, short_side: Some(short_side) }
}

fn arrays(coder: Coder) -> WorkloadContent {
    WorkloadContent::Arrays { coder: Some(coder) }
}

#[test]
fn figures_name_their_limit_and_what_to_change() {
    let (e, s) = (epoch(), workload());
    let waiting =
        Epoch { cpu_s: 1.6, decode_s: 1.0, read_s: 2.0, waited_for_data_s: 4.8, disk_bytes: Some(99_000_000), ..e };
    let far = Epoch { fetched_bytes: 100_000_000, ..waiting };
    let stored = Epoch { cpu_s: 7.0, decode_s: 1.0, read_s: 6.0, ..e };
    let idle = Epoch { cpu_s: 2.2, decode_s: 2.0, ..e };
    let cases = [
        ("decode", e, s.clone(), vec!["all 4 threads are busy", "96 %", "--image rrc224"]),
        ("decode", e, Workload { cores: 16, ..s.clone() }, vec!["16 cores", "`--threads 16`"]),
        (
            "decode",
            e,
            Workload { content: pictures(224, false, 375.0), ..s.clone() },
            vec!["`pack --jpeg tile`", "224 × 224"],
        ),
        (
            "decode",
            e,
            Workload { content: pictures(224, true, 1080.4), ..s.clone() },
            vec!["1080 pixels", "`pack --jpeg reencode --short-side 448`", "loss"],
        ),
        (
            "decode",
            e,
            Workload { content: pictures(224, true, 375.0), ..s.clone() },
            vec!["only more cores would help"],
        ),
        (
            "decode",
            e,
            Workload { content: arrays(Coder::Blosc2Zstd), ..s.clone() },
            vec!["`pack --codec blosc2-lz4`", "than blosc2-zstd"],
        ),
        ("decode", e, Workload { content: arrays(Coder::Blosc2Lz4), ..s.clone() }, vec!["only more cores would help"]),
        (
            "decode",
            Epoch { seconds: 7.9, ..e },
            Workload { threads: 1, cores: 1, ..s.clone() },
            vec!["the only thread is busy"],
        ),
        ("disk", waiting, s.clone(), vec!["49.5 MB/s", "20 % busy", "250 MB/s", "100 MB, fits into memory"]),
        ("disk", waiting, Workload { single_reads: true, ..s.clone() }, vec!["`--order windowed`"]),
        (
            "disk",
            waiting,
            Workload { memory_bytes: Some(120_000_000), ..s.clone() },
            vec!["faster disk", "`pack --jpeg reencode`"],
        ),
        (
            "disk",
            waiting,
            Workload { memory_bytes: None, content: arrays(Coder::Zstd), ..s.clone() },
            vec!["`pack --prefer size`"],
        ),
        ("disk", Epoch { disk_bytes: None, ..waiting }, s.clone(), vec!["it delivered 50.0 MB/s"]),
        ("network", far, s.clone(), vec!["it delivered 50.0 MB/s", "closer to the store"]),
        (
            "network",
            Epoch { disk_bytes: Some(0), ..far },
            Workload { single_reads: true, ..s.clone() },
            vec!["`--order windowed`"],
        ),
        ("decode", Epoch { fetched_bytes: 100_000_000, ..e }, s.clone(), vec!["decoding is the limit"]),
        // In this case, all bytes come from the local cache of a store.
        ("disk", Epoch { fetched_bytes: 1_000_000, ..waiting }, s.clone(), vec!["it delivered 49.5 MB/s"]),
        // The disk is fast, so it is not the bottleneck even though all bytes come from it.
        ("decode", Epoch { disk_bytes: Some(100_000_000), ..e }, s.clone(), vec!["decoding is the limit"]),
        (
            "memory",
            stored,
            s.clone(),
            vec!["copying is the limit", "50.0 MB/s", "decoding takes less", "no option can improve"],
        ),
        ("memory", stored, Workload { content: WorkloadContent::Stored, ..s.clone() }, vec!["nothing is decoded"]),
        (
            "decode",
            Epoch { seconds: 3.9, ..e },
            Workload { threads: 2, cores: 2, ..s.clone() },
            vec!["both threads are busy"],
        ),
        ("memory", Epoch { disk_bytes: None, ..stored }, Workload { cores: 8, ..s.clone() }, vec!["`--threads 8`"]),
        ("memory", e, Workload { content: WorkloadContent::Stored, ..s.clone() }, vec!["copying is the limit"]),
        ("crc", Epoch { crc_s: 5.0, decode_s: 2.0, ..e }, s.clone(), vec!["checksums", "more cores would help"]),
        (
            "cores",
            Epoch { queued_s: Some(4.0), cpu_s: 3.9, ..e },
            s.clone(),
            vec!["the limit is the CPU", "these threads got 49 % of 4 cores", "other programs took most of it"],
        ),
        ("cores", Epoch { queued_s: None, cpu_s: 3.9, ..e }, s.clone(), vec!["other programs"]),
        (
            "cores",
            Epoch { queued_s: Some(9.0), decode_s: 15.0, ..e },
            Workload { threads: 8, ..s.clone() },
            vec!["8 threads share 4 cores", "`--threads 4`"],
        ),
        (
            "consumer",
            Epoch { decode_s: 1.0, waited_for_slot_s: 6.0, ..e },
            s.clone(),
            vec!["75 % of their time", "batches of 18.8 MB", "`--batch-size`"],
        ),
        (
            "consumer",
            Epoch { decode_s: 1.0, waited_for_slot_s: 6.0, ..e },
            Workload { slots: 1, ..s.clone() },
            vec!["`--slots 3`"],
        ),
        (
            "slots",
            idle,
            s.clone(),
            vec!["72 % of their time", "3 slots of 32 samples each", "raise `--slots` or `--batch-size`"],
        ),
        ("slots", Epoch { batches: 3, ..idle }, s.clone(), vec!["fewer threads"]),
        ("unclear", Epoch { seconds: 0.004, ..e }, s.clone(), vec!["1,000 samples in 4.0 ms", "larger dataset"]),
        ("unclear", Epoch { samples: 0, ..e }, s, vec!["0 samples"]),
    ];
    for (expected, epoch, workload, words) in cases {
        let limit = limit(&epoch, &workload);
        assert_eq!(limit.name(), expected, "{epoch:?} {workload:?}");
        let advice = advice(limit, &epoch, &workload);
        for word in words {
            assert!(advice.contains(word), "expected `{word}` in: {advice}");
        }
        assert!(!advice.contains('\n') && !advice.ends_with('.'), "{advice}");
    }
}
