use super::*;

fn pin(size: u64) -> Arc<Pin> {
    Arc::new(Pin { id: 1, key: "a".into(), size, e_tag: Some("tag".into()), modified: 0 })
}

fn one_at_a_time(page: u64) -> Schedule {
    Schedule::new(64 << 20, page, Tuner::new((1, 1)))
}

fn begun(start: Option<Request>) -> (Arc<Pin>, Arc<Transfer>) {
    let Some(Request::Transfer(pin, transfer)) = start else { panic!("{start:?}") };
    (pin, transfer)
}

fn arrive(state: &mut Schedule, (pin, transfer): &(Arc<Pin>, Arc<Transfer>)) {
    state.count_out(1);
    state.finished(pin, transfer, true);
}

#[test]
fn a_queued_transfer_is_fetched_for_its_reader() {
    let mut state = Schedule::new(64 << 20, 1, Tuner::new((8, 8)));
    let pin = pin(1 << 20);
    state.announce(&pin, 100..200);
    let (transfer, start) = state.want(&pin, 150..300);
    assert!(Arc::ptr_eq(&begun(start).1, &transfer.unwrap()));
}

#[test]
fn a_queued_range_is_joined_with_both_neighbours() {
    let mut state = one_at_a_time(1);
    let pin = pin(1 << 30);
    state.announce(&pin, 0..1);
    let first = begun(state.next());
    assert!(state.next().is_none());
    let (kib, mib) = (1 << 10, 1 << 20);
    // The first two ranges are in reverse order. The gap between them is small, and the gap before the third range is
    // large.
    let near = [(64 * mib, 600 * kib), (64 * mib - 160 * kib, 100 * kib), (65 * mib, 200 * kib)];
    // Ranges that must not be joined: the gap is larger than the wanted bytes, or larger than the largest permitted
    // gap.
    let far = [(66 * mib + 100 * kib, 10 * kib), (70 * mib, 3 * mib), (75 * mib, 3 * mib)];
    for (start, len) in near.into_iter().chain(far) {
        state.announce(&pin, start..start + len);
    }
    arrive(&mut state, &first);
    let joined = begun(state.next());
    assert_eq!(joined.1.range, 64 * mib - 160 * kib..65 * mib + 200 * kib);
    arrive(&mut state, &joined);
    for (start, len) in far {
        let transfer = begun(state.next());
        assert_eq!(transfer.1.range, start..start + len);
        arrive(&mut state, &transfer);
    }
    assert!(state.next().is_none());
}

#[test]
fn a_range_with_an_empty_queue_is_requested_alone() {
    let mut state = Schedule::new(64 << 20, 1, Tuner::new((8, 8)));
    let pin = pin(1 << 30);
    for start in [100, 0, 200] {
        state.announce(&pin, start..start + 100);
        assert_eq!(begun(state.next()).1.range, start..start + 100);
    }
}

#[test]
fn a_range_announced_between_others_is_kept_until_it_is_read() {
    let mut state = one_at_a_time(1);
    let pin = pin(1 << 20);
    state.announce(&pin, 1000..1001);
    let first = begun(state.next());
    state.announce(&pin, 0..100);
    state.announce(&pin, 200..300);
    arrive(&mut state, &first);
    let both = begun(state.next());
    assert_eq!(both.1.range, 0..300);
    state.announce(&pin, 100..200);
    arrive(&mut state, &both);
    state.announce(&pin, 0..100);
    for range in [100..200, 0..100, 200..300, 0..100] {
        let (transfer, start) = state.want(&pin, range);
        assert!(start.is_none() && Arc::ptr_eq(&transfer.unwrap(), &both.1), "requested twice");
        state.was_read(&pin, &both.1, 100);
    }
    assert!(state.want(&pin, 0..100).1.is_some());
}

#[test]
fn whole_pages_are_requested_once_with_a_cache() {
    let page = 64 << 10;
    let mut state = Schedule::new(64 << 20, page, Tuner::new((8, 8)));
    let pin = pin(5 * page + 10);
    let mut of = |range| {
        state.announce(&pin, range);
        state.next().map(|start| begun(Some(start)).1.range.clone())
    };
    assert_eq!(of(page + 5..page + 10), Some(page..2 * page));
    assert_eq!(of(page + 10..page + 20), None);
    assert_eq!(of(page + 20..2 * page + 20), Some(2 * page..3 * page));
    assert_eq!(of(4 * page + 1..5 * page + 5), Some(4 * page..5 * page + 10));
    assert_eq!(of(3 * page - 1..4 * page + 5), Some(3 * page..4 * page));
}

#[test]
fn unread_bytes_are_dropped_for_a_waiting_reader() {
    let mut state = Schedule::new(1000, 1, Tuner::new((8, 8)));
    let pin = pin(1 << 30);
    let far = |at: u64| at << 25;
    for at in 0..4 {
        state.announce(&pin, far(at)..far(at) + 300);
    }
    // The budget for announced ranges, three quarters of the memory, is enough for two transfers.
    let held = [state.next(), state.next()].map(begun);
    assert!(state.next().is_none());
    held.iter().for_each(|transfer| arrive(&mut state, transfer));
    state.was_read(&pin, &held[0].1, 100);
    let late = begun(state.want(&pin, far(3)..far(3) + 300).1);
    arrive(&mut state, &late);
    state.was_read(&pin, &late.1, 300);
    assert!(state.next().is_some(), "memory is free again");
}

#[test]
fn held_bytes_of_a_cached_range_stay_until_they_are_read() {
    let mut state = one_at_a_time(1);
    let pin = pin(1 << 20);
    state.put_arrived(&pin, 900, vec![vec![7; 100].into()]);
    assert_eq!((state.unknown(&pin, &(800..1000)), state.unknown(&pin, &(950..1000))), (100, 0));
    assert_eq!((state.unknown(&pin, &(1000..1100)), state.unknown(&pin, &(800..850))), (100, 50));
    state.announce_cached(&pin, &(850..950));
    state.announce_cached(&pin, &(800..850));
    assert!(state.next().is_none(), "no request is queued");
    let (held, _) = state.want(&pin, 900..1000);
    let held = held.unwrap();
    for (bytes, unknown) in [(100, 0), (49, 0), (1, 100)] {
        state.was_read(&pin, &held, bytes);
        assert_eq!(state.unknown(&pin, &(900..1000)), unknown);
    }
}
