//! The map whose values are made once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use super::super::once_map::OnceMap;

#[test]
fn once_map_makes_a_value_once_for_all_threads() {
    let map = OnceMap::<u32, Arc<usize>>::default();
    let (made, start) = (AtomicUsize::new(0), Barrier::new(16));
    let values: Vec<_> = thread::scope(|scope| {
        let ask = || {
            start.wait();
            map.get_or_make(&7, || {
                thread::sleep(Duration::from_millis(20));
                Ok::<_, ()>(Arc::new(made.fetch_add(1, Ordering::SeqCst)))
            })
        };
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic").expect("no error")).collect()
    });
    assert_eq!(made.load(Ordering::SeqCst), 1);
    assert!(values.iter().all(|value| Arc::ptr_eq(value, &values[0])));
}

#[test]
fn once_map_does_not_hold_up_other_keys() {
    let map = OnceMap::<u32, u32>::default();
    let (started, is_started) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let map = &map;
    thread::scope(|scope| {
        let slow = scope.spawn(move || {
            map.get_or_make(&1, || {
                started.send(()).expect("the test waits");
                may_go_on.recv_timeout(Duration::from_secs(30)).map(|()| 10)
            })
        });
        is_started.recv().expect("the slow one begins");
        // With one lock for all keys this would wait for the slow one, which waits for us.
        assert_eq!(map.get_or_make(&2, || Ok::<_, ()>(20)), Ok(20));
        assert_eq!(map.get_or_make(&2, || Err(())), Ok(20), "made already");
        go_on.send(()).expect("the slow one waits");
        assert_eq!(slow.join().expect("no panic"), Ok(10));
    });
}

#[test]
fn once_map_tries_again_after_a_failure() {
    let map = OnceMap::<u32, u32>::default();
    assert_eq!(map.get_or_make(&1, || Err("no")), Err("no"));
    let panicked = thread::scope(|scope| {
        scope.spawn(|| map.get_or_make(&1, || -> Result<u32, ()> { panic!("on purpose") })).join()
    });
    assert!(panicked.is_err());
    assert_eq!(map.get_or_make(&1, || Ok::<_, ()>(3)), Ok(3));
}
