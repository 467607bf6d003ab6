//! Where clusters stand, and how long light takes between them.

use serde::Deserialize;

/// A point of the earth, in hundredths of a degree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The latitude, north of the equator.
    pub lat: i32,
    /// The longitude, east of Greenwich.
    pub lon: i32,
}

/// Fibre is longer than the distance, by so much in percent: published round-trip times
/// between Italian exchanges are 1.5 to 2 times those of a straight line.
const DETOUR_PERCENT: u64 = 170;
/// Light in glass goes so far in a ms, in km.
const KM_PER_MS: u64 = 200;

impl Place {
    /// The distance in km, on a plane that touches the earth at 43° north: good to a tenth
    /// within a country of the size of Italy.
    pub fn km(self, other: Self) -> u64 {
        let north = i64::from(self.lat - other.lat) * 1_112 / 1_000;
        let east = i64::from(self.lon - other.lon) * 813 / 1_000;
        (north * north + east * east).unsigned_abs().isqrt()
    }

    /// From here to there by fibre, in ms.
    pub fn latency_ms(self, other: Self) -> u64 {
        self.km(other) * DETOUR_PERCENT / 100 / KM_PER_MS
    }
}

/// A city: name, region, place.
pub(crate) struct City {
    pub(crate) name: &'static str,
    pub(crate) region: &'static str,
    pub(crate) place: Place,
}

const fn city(name: &'static str, region: &'static str, lat: i32, lon: i32) -> City {
    City { name, region, place: Place { lat, lon } }
}

/// Cities of Italy, the largest first, so that each region is there among the first ten.
pub(crate) const CITIES: [City; 40] = [
    city("rome", "centre", 4190, 1250),
    city("turin", "north-west", 4507, 769),
    city("milan", "north-west", 4546, 919),
    city("naples", "south", 4085, 1427),
    city("bologna", "north-east", 4449, 1134),
    city("palermo", "islands", 3812, 1336),
    city("bari", "south", 4112, 1687),
    city("florence", "centre", 4377, 1126),
    city("venice", "north-east", 4544, 1232),
    city("cagliari", "islands", 3922, 912),
    city("genoa", "north-west", 4441, 893),
    city("catania", "islands", 3750, 1509),
    city("verona", "north-east", 4544, 1099),
    city("messina", "islands", 3819, 1555),
    city("padua", "north-east", 4541, 1188),
    city("trieste", "north-east", 4565, 1378),
    city("brescia", "north-west", 4554, 1022),
    city("taranto", "south", 4048, 1723),
    city("parma", "north-east", 4480, 1033),
    city("modena", "north-east", 4465, 1093),
    city("reggio", "south", 3811, 1565),
    city("perugia", "centre", 4311, 1239),
    city("livorno", "centre", 4355, 1031),
    city("ravenna", "north-east", 4442, 1220),
    city("foggia", "south", 4146, 1554),
    city("rimini", "north-east", 4406, 1257),
    city("salerno", "south", 4068, 1476),
    city("sassari", "islands", 4073, 856),
    city("latina", "centre", 4147, 1290),
    city("pescara", "south", 4246, 1421),
    city("bergamo", "north-west", 4570, 967),
    city("trento", "north-east", 4607, 1112),
    city("bolzano", "north-east", 4650, 1135),
    city("ancona", "centre", 4362, 1351),
    city("udine", "north-east", 4606, 1324),
    city("lecce", "south", 4035, 1817),
    city("pisa", "centre", 4372, 1040),
    city("cosenza", "south", 3930, 1625),
    city("siena", "centre", 4332, 1133),
    city("aosta", "north-west", 4574, 731),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Place {
        CITIES.iter().find(|city| city.name == name).unwrap().place
    }

    #[test]
    fn distances_are_those_of_the_map() {
        // Great-circle distances: 477, 427, 890 km.
        for (a, b, km) in
            [("rome", "milan", 477), ("rome", "palermo", 427), ("milan", "palermo", 890)]
        {
            let found = place(a).km(place(b));
            assert!(found.abs_diff(km) * 10 < km, "{a} to {b}: {found}, not {km}");
        }
        assert_eq!(place("rome").latency_ms(place("milan")), 4);
        assert_eq!(place("rome").km(place("rome")), 0);
    }
}
