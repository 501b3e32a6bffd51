//! The partitions of client ids, as a cluster of Tidegate has them, so that each partition can be asked from outside.

/// How many partitions a cluster has.
pub(super) const PARTITIONS: u16 = 1_024;

const K: u64 = 0x9e37_79b9_7f4a_7c15;

/// The partition of a client id of the default tenant.
pub(super) fn partition_of(client_id: &str) -> u16 {
    (hash(client_id.as_bytes()) >> 32) as u16 % PARTITIONS
}

/// The hash by which the homes of names are found: folded multiplication, the same on every machine.
fn hash(bytes: &[u8]) -> u64 {
    let mut state = K ^ bytes.len() as u64;
    let mut rest = bytes;
    while rest.len() >= 16 {
        state = mix(word(rest) ^ state, word(&rest[8..]) ^ K);
        rest = &rest[16..];
    }
    if rest.len() >= 8 {
        let tail = word(&rest[rest.len() - 8..]);
        state = mix(word(rest) ^ state, tail ^ K.rotate_left(17));
    } else if !rest.is_empty() {
        state = mix(word(rest) ^ state, K.rotate_left(29));
    }
    mix(state, K)
}

fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The first eight bytes, with zeros behind a shorter rest.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = bytes.len().min(8);
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(word)
}

/// `count` client ids of each of these partitions, in their order.
pub(super) fn client_ids(partitions: &[u16], count: usize) -> Vec<Vec<String>> {
    let mut places = vec![None; usize::from(PARTITIONS)];
    for (place, partition) in partitions.iter().enumerate() {
        places[usize::from(*partition)] = Some(place);
    }
    let mut ids = vec![Vec::new(); partitions.len()];
    let mut missing = partitions.len() * count;
    for number in 0_u64.. {
        if missing == 0 {
            break;
        }
        let id = format!("probe-{number}");
        let place = places[usize::from(partition_of(&id))];
        if let Some(ids) = place.map(|place| &mut ids[place]).filter(|ids| ids.len() < count) {
            ids.push(id);
            missing -= 1;
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_equal_the_partitions_of_the_engine() {
        // `homes_of_names_stay` of the engine has the same names and numbers.
        let names = ["a", "probe-17", "subscriber", "a-name-with-more-than-16-bytes"];
        assert_eq!(names.map(partition_of), [896, 152, 199, 546]);
    }

    #[test]
    fn each_partition_gets_its_client_ids() {
        let partitions: Vec<u16> = (0..PARTITIONS).step_by(5).collect();
        let ids = client_ids(&partitions, 3);
        assert_eq!(ids.len(), partitions.len());
        for (partition, ids) in partitions.iter().zip(ids) {
            assert_eq!(ids.len(), 3);
            assert!(ids.iter().all(|id| partition_of(id) == *partition), "{partition} {ids:?}");
        }
    }
}
