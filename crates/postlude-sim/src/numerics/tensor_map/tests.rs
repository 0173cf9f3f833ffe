use std::collections::HashMap;

use postlude_ptx::launch::{Buffer, Element};

use super::*;
use crate::numerics::random::Random;

const ELEMENTS: [Element; 6] =
    [Element::U8, Element::U16, Element::F16, Element::BF16, Element::F32, Element::I32];

fn arbitrary(random: &mut Random) -> (TensorMap, Vec<i32>) {
    let dims = 1 + random.below(5) as usize;
    let element = ELEMENTS[random.below(6) as usize];
    let sizes: Vec<u64> = (0..dims).map(|_| 1 + u64::from(random.below(9))).collect();
    let mut strides = Vec::new();
    let mut stride = (sizes[0] * u64::from(element.bytes())).next_multiple_of(16);
    for size in &sizes[1..] {
        strides.push(stride);
        stride = (stride * size).next_multiple_of(16);
    }
    let swizzle =
        [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128][random.below(4) as usize];
    let inner = 16 * (1 + random.below(width(swizzle) / 16)) / element.bytes();
    let mut box_sizes = vec![inner];
    box_sizes.extend((1..dims).map(|_| 1 + random.below(4)));
    let coordinates = (0..dims).map(|_| random.below(14) as i32 - 5).collect();
    let (buffer, offset) = (Buffer(0), i64::from(random.below(4)) * 16);
    (TensorMap { buffer, offset, element, sizes, strides, box_sizes, swizzle }, coordinates)
}

/// Every element of the box by nested counting: its shared offset, and its place if it is inside.
fn elements(map: &TensorMap, coordinates: &[i32]) -> Vec<(u32, Option<u64>)> {
    let mut all = Vec::new();
    let mut index = vec![0_u32; map.sizes.len()];
    loop {
        let row =
            index[1..].iter().zip(&map.box_sizes[1..]).rev().fold(0, |row, (i, n)| row * n + i);
        let shared = row * row_pitch(map) + index[0] * map.element.bytes();
        let place: Vec<i64> =
            index.iter().zip(coordinates).map(|(i, c)| i64::from(*i) + i64::from(*c)).collect();
        let inside = place.iter().zip(&map.sizes).all(|(at, size)| *at >= 0 && *at < *size as i64);
        let outer: i64 = place[1..].iter().zip(&map.strides).map(|(at, s)| at * *s as i64).sum();
        let at = map.offset + outer + place[0] * i64::from(map.element.bytes());
        all.push((shared, inside.then_some(at as u64)));
        let Some(dim) = (0..index.len()).find(|&d| index[d] + 1 < map.box_sizes[d]) else {
            return all;
        };
        index[dim] += 1;
        index[..dim].fill(0);
    }
}

#[test]
fn loads_cover_the_box_once_and_find_every_element() {
    let mut random = Random::new(5);
    for _ in 0..2000 {
        let (map, coordinates) = arbitrary(&mut random);
        let mut found = HashMap::new();
        for run in loaded(&map, &coordinates) {
            for byte in 0..run.bytes {
                let global = run.global.map(|at| at + u64::from(byte));
                assert_eq!(found.insert(run.shared + byte, global), None);
            }
        }
        assert_eq!(found.len(), box_bytes(&map) as usize);
        for (shared, global) in elements(&map, &coordinates) {
            for byte in 0..map.element.bytes() {
                let want = global.map(|at| at + u64::from(byte));
                assert_eq!(found[&(shared + byte)], want, "{map:?} {coordinates:?}");
            }
        }
    }
}

#[test]
fn stores_write_every_element_and_the_rest_of_its_chunk() {
    let mut random = Random::new(6);
    for _ in 0..2000 {
        let (map, coordinates) = arbitrary(&mut random);
        let mut found = HashMap::new();
        for run in stored(&map, &coordinates) {
            for byte in 0..run.bytes {
                let inside = byte < run.bytes - run.beyond;
                let global = run.global + u64::from(byte);
                assert_eq!(found.insert(run.shared + byte, (global, inside)), None);
            }
        }
        let all = elements(&map, &coordinates);
        let places: HashMap<u32, Option<u64>> = all.iter().copied().collect();
        for (shared, global) in all {
            match (global, found.get(&shared)) {
                (Some(want), Some((at, true))) => assert_eq!(want, *at),
                (None, Some((at, false))) => {
                    // Its chunk starts inside or before the tensor, so that an element before it is inside.
                    let chunk = shared - shared % CHUNK;
                    let earlier =
                        (chunk..shared).rev().find_map(|at| Some((at, places.get(&at)?.as_ref()?)));
                    let (earlier, place) = earlier.expect("an element of the chunk that is inside");
                    assert_eq!(place + u64::from(shared - earlier), *at);
                }
                (None, None) => {}
                other => panic!("{other:?} {map:?} {coordinates:?}"),
            }
        }
    }
}

fn matrix(columns: u64, element: Element) -> TensorMap {
    TensorMap {
        buffer: Buffer(0),
        offset: 0,
        element,
        sizes: vec![columns, 100],
        strides: vec![(columns * u64::from(element.bytes())).next_multiple_of(16)],
        box_sizes: vec![64 / element.bytes(), 2],
        swizzle: Swizzle::B64,
    }
}

#[test]
fn an_uneven_row_loses_what_follows_it() {
    let map = matrix(21, Element::BF16);
    let first = Written { global: 48, shared: 0, bytes: 64, beyond: 0 };
    assert_eq!(stored(&matrix(64, Element::BF16), &[24, 0])[0], first);
    let runs = stored(&map, &[16, 3]);
    assert_eq!(runs[0], Written { global: 3 * 48 + 32, shared: 0, bytes: 16, beyond: 6 });
    assert_eq!(runs[1], Written { global: 4 * 48 + 32, shared: 64, bytes: 16, beyond: 6 });
    assert_eq!(stored(&map, &[0, 0])[0].beyond, 6);
    assert_eq!(stored(&map, &[24, 0]), []);
    assert_eq!(stored(&map, &[0, 99]).len(), 1);
    assert_eq!(stored(&matrix(24, Element::BF16), &[0, 0])[0].beyond, 0);
}

#[test]
fn negative_coordinates_load_zeros_first() {
    let runs = loaded(&matrix(64, Element::F32), &[-3, -1]);
    assert_eq!(runs[0], Run { global: None, shared: 0, bytes: 64 });
    assert_eq!(runs[1], Run { global: None, shared: 64, bytes: 12 });
    assert_eq!(runs[2], Run { global: Some(0), shared: 76, bytes: 52 });
}

#[test]
fn pieces_are_a_run_chunk_by_chunk() {
    let mut random = Random::new(7);
    for _ in 0..500 {
        let (address, shared, bytes) =
            (random.below(64) * 128, random.below(256), 1 + random.below(128));
        for swizzle in [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128] {
            let mut next = 0;
            for (from, place, length) in pieces(address, swizzle, shared, bytes) {
                assert_eq!(from, next);
                for byte in 0..length {
                    let at = swizzled(address + shared + from + byte, swizzle);
                    assert_eq!(place + byte, at);
                }
                next += length;
            }
            assert_eq!(next, bytes);
        }
    }
}
