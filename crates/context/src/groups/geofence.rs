//! Areas on the earth. Latitude and longitude are degrees (WGS 84 coordinates on a sphere of the earth's mean radius).

/// The mean radius of the earth, metres.
const EARTH_RADIUS_M: f64 = 6_371_008.8;
/// Most corners of a polygon.
pub const MAX_CORNERS: usize = 1_024;

/// Why an area was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeofenceError {
    /// Not a place.
    #[error("a latitude is not within -90 to 90, or a longitude not within -180 to 180")]
    Position,
    /// An invalid radius.
    #[error("the radius is not above 0 and up to 10000000 m, or the margin is negative or larger than the radius")]
    Radius,
    /// Too few or too many corners.
    #[error("a polygon has 3 to 1024 corners; do not repeat the first one at the end")]
    Corners,
    /// No node could be inside.
    #[error(
        "the polygon encloses nothing: its corners lie on one line, or its edges cross so that its parts cancel out"
    )]
    NoArea,
    /// Half of the world or more, where it is not said which half is meant.
    #[error("the polygon is 180 degrees of longitude wide or wider, or encloses a pole: split it into several groups")]
    TooWide,
}

/// A place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    latitude: f64,
    longitude: f64,
}

impl Position {
    /// Checks the coordinates.
    ///
    /// # Errors
    /// When one is out of its range or no number.
    pub fn new(latitude: f64, longitude: f64) -> Result<Self, GeofenceError> {
        let valid = (-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude);
        if valid { Ok(Self { latitude, longitude }) } else { Err(GeofenceError::Position) }
    }

    /// The distance over the surface, metres (haversine).
    pub fn distance_m(self, other: Self) -> f64 {
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let longitude = (other.longitude - self.longitude).to_radians();
        let half = ((to - from) / 2.0).sin().powi(2) + from.cos() * to.cos() * (longitude / 2.0).sin().powi(2);
        2.0 * EARTH_RADIUS_M * half.clamp(0.0, 1.0).sqrt().asin()
    }
}

/// All places within a distance of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circle {
    centre: Position,
    radius_m: f64,
    margin_m: f64,
}

impl Circle {
    /// A circle. Who is inside leaves it only when further away than radius and margin together.
    ///
    /// # Errors
    /// When the radius or the margin is out of its range.
    pub fn new(centre: Position, radius_m: f64, margin_m: f64) -> Result<Self, GeofenceError> {
        let valid = radius_m > 0.0 && radius_m <= 1e7 && (0.0..=radius_m).contains(&margin_m);
        if valid { Ok(Self { centre, radius_m, margin_m }) } else { Err(GeofenceError::Radius) }
    }

    /// Whether a place is inside; `was` says whether it was before.
    pub fn contains(&self, position: Position, was: bool) -> bool {
        let reach = if was { self.radius_m + self.margin_m } else { self.radius_m };
        self.centre.distance_m(position) <= reach
    }
}

/// Square degrees, some square centimetres at the equator: a smaller polygon is below the precision of coordinates.
const LEAST_AREA: f64 = 1e-13;

/// Twice the area that corners enclose, square degrees (Gauss's formula, from the first corner so that small areas far
/// from the origin are not lost in rounding).
fn twice_the_area(corners: &[(f64, f64)]) -> f64 {
    let origin = corners.first().copied().unwrap_or_default();
    let from_origin = |corner: &(f64, f64)| (corner.0 - origin.0, corner.1 - origin.1);
    let pairs = corners.iter().zip(corners.iter().cycle().skip(1));
    let cross = |(a, b): (&(f64, f64), &(f64, f64))| {
        let ((a, b), (c, d)) = (from_origin(a), from_origin(b));
        a * d - b * c
    };
    pairs.map(cross).sum::<f64>().abs()
}

/// A polygon whose edges are straight on a map of latitude and longitude. It may cross the antimeridian: each edge
/// takes the shorter way round.
#[derive(Clone, Debug, PartialEq)]
pub struct Polygon {
    /// Latitude and longitude of each corner; longitudes go on beyond 180 where the polygon does.
    corners: Vec<(f64, f64)>,
    south: f64,
    north: f64,
    west: f64,
    east: f64,
}

impl Polygon {
    /// Joins corners, the last one to the first.
    ///
    /// # Errors
    /// When there are too few or too many, or the polygon is as wide as half of the world.
    pub fn new(corners: &[Position]) -> Result<Self, GeofenceError> {
        if !(3..=MAX_CORNERS).contains(&corners.len()) {
            return Err(GeofenceError::Corners);
        }
        let mut unrolled: Vec<(f64, f64)> = Vec::with_capacity(corners.len());
        let mut longitude = corners[0].longitude;
        for (place, corner) in corners.iter().enumerate() {
            let before = corners[place.saturating_sub(1)].longitude;
            longitude += shorter_way(before, corner.longitude)?;
            unrolled.push((corner.latitude, longitude));
        }
        let closing = shorter_way(corners[corners.len() - 1].longitude, corners[0].longitude)?;
        // Once round the world, and the way back does not meet the beginning.
        if (longitude + closing - corners[0].longitude).abs() > 1.0 {
            return Err(GeofenceError::TooWide);
        }
        let lowest = |values: &dyn Fn(&(f64, f64)) -> f64| unrolled.iter().map(values).fold(f64::INFINITY, f64::min);
        let highest =
            |values: &dyn Fn(&(f64, f64)) -> f64| unrolled.iter().map(values).fold(f64::NEG_INFINITY, f64::max);
        let (south, north) = (lowest(&|corner| corner.0), highest(&|corner| corner.0));
        let (west, east) = (lowest(&|corner| corner.1), highest(&|corner| corner.1));
        if east - west >= 180.0 {
            return Err(GeofenceError::TooWide);
        }
        if twice_the_area(&unrolled) < LEAST_AREA {
            return Err(GeofenceError::NoArea);
        }
        Ok(Self { corners: unrolled, south, north, west, east })
    }

    /// Whether a place is inside: a line from it to the north crosses the border an odd number of times.
    pub fn contains(&self, position: Position) -> bool {
        if !(self.south..=self.north).contains(&position.latitude) {
            return false;
        }
        let turns = [position.longitude, position.longitude + 360.0, position.longitude - 360.0];
        turns.iter().filter(|longitude| (self.west..=self.east).contains(*longitude)).any(|longitude| {
            let mut inside = false;
            let mut from = self.corners[self.corners.len() - 1];
            for to in &self.corners {
                if (from.1 > *longitude) != (to.1 > *longitude) {
                    let part = (longitude - from.1) / (to.1 - from.1);
                    inside ^= position.latitude < from.0 + part * (to.0 - from.0);
                }
                from = *to;
            }
            inside
        })
    }
}

/// How far it is from one longitude to another, the shorter way: above -180 and below 180.
fn shorter_way(from: f64, to: f64) -> Result<f64, GeofenceError> {
    let mut way = to - from;
    if way > 180.0 {
        way -= 360.0;
    } else if way < -180.0 {
        way += 360.0;
    }
    if way.abs() >= 180.0 { Err(GeofenceError::TooWide) } else { Ok(way) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(latitude: f64, longitude: f64) -> Position {
        Position::new(latitude, longitude).unwrap()
    }

    fn polygon(corners: &[(f64, f64)]) -> Result<Polygon, GeofenceError> {
        Polygon::new(&corners.iter().map(|(latitude, longitude)| at(*latitude, *longitude)).collect::<Vec<_>>())
    }

    #[test]
    fn distances_agree_with_the_globe() {
        let hamburg_berlin = at(53.5511, 9.9937).distance_m(at(52.52, 13.405));
        assert!((hamburg_berlin - 255_000.0).abs() < 2_000.0, "{hamburg_berlin}");
        let over_the_antimeridian = at(0.0, 179.5).distance_m(at(0.0, -179.5));
        assert!((over_the_antimeridian - 111_195.0).abs() < 100.0, "{over_the_antimeridian}");
        assert!((at(90.0, 0.0).distance_m(at(90.0, 123.0))).abs() < 1.0, "there is one north pole");
    }

    #[test]
    fn a_member_of_a_circle_leaves_it_behind_the_margin() {
        let circle = Circle::new(at(0.0, 180.0), 100_000.0, 50_000.0).unwrap();
        let near = at(0.0, -178.9);
        assert!(!circle.contains(near, false) && circle.contains(near, true));
        assert!(circle.contains(at(0.0, -179.5), false) && !circle.contains(at(0.0, -178.0), true));
        assert!(Circle::new(at(0.0, 0.0), 0.0, 0.0).is_err() && Circle::new(at(0.0, 0.0), 1.0, 2.0).is_err());
        assert!(Circle::new(at(0.0, 0.0), f64::NAN, 0.0).is_err());
    }

    #[test]
    fn a_polygon_with_a_bay_has_the_bay_outside() {
        let shape = polygon(&[(0.0, 0.0), (0.0, 10.0), (10.0, 10.0), (2.0, 5.0), (10.0, 0.0)]).unwrap();
        assert!(shape.contains(at(1.0, 5.0)) && !shape.contains(at(5.0, 5.0)) && shape.contains(at(5.0, 1.0)));
        assert!(!shape.contains(at(1.0, 11.0)) && !shape.contains(at(-1.0, 5.0)));
    }

    #[test]
    fn a_polygon_may_lie_across_the_antimeridian() {
        let fiji = polygon(&[(-20.0, 176.0), (-20.0, -178.0), (-15.0, -178.0), (-15.0, 176.0)]).unwrap();
        assert!(fiji.contains(at(-18.0, 178.0)) && fiji.contains(at(-18.0, -179.0)) && fiji.contains(at(-18.0, 180.0)));
        assert!(
            fiji.contains(at(-18.0, -180.0)) && !fiji.contains(at(-18.0, 0.0)) && !fiji.contains(at(-18.0, -177.0))
        );
    }

    #[test]
    fn a_polygon_that_encloses_nothing_is_refused() {
        for corners in [
            &[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)][..],
            &[(53.5, 10.0), (53.5, 10.0), (53.5, 10.0)],
            &[(53.5, 10.0), (53.6, 10.0), (53.55, 10.0)],
            &[(0.1, 0.1), (0.2, 0.2), (0.7, 0.7), (0.3, 0.3)],
            // Corners of a rectangle, in the wrong order.
            &[(53.5, 10.0), (53.5, 10.1), (53.6, 10.0), (53.6, 10.1)],
        ] {
            assert_eq!(polygon(corners), Err(GeofenceError::NoArea), "{corners:?}");
        }
        let metre = 1e-5;
        assert!(polygon(&[(80.0, 179.0), (80.0, 179.0 + metre), (80.0 + metre, 179.0)]).is_ok(), "half a square metre");
    }

    #[test]
    fn a_polygon_of_half_the_world_is_refused() {
        assert_eq!(
            polygon(&[(60.0, 0.0), (60.0, 120.0), (60.0, -120.0)]),
            Err(GeofenceError::TooWide),
            "round the pole"
        );
        assert_eq!(polygon(&[(0.0, -100.0), (0.0, 0.0), (10.0, 100.0), (10.0, 0.0)]), Err(GeofenceError::TooWide));
        assert_eq!(polygon(&[(0.0, 0.0), (0.0, 180.0), (1.0, 90.0)]), Err(GeofenceError::TooWide));
        assert_eq!(polygon(&[(0.0, 0.0), (0.0, 1.0)]), Err(GeofenceError::Corners));
        assert!(
            Position::new(90.1, 0.0).is_err()
                && Position::new(0.0, 180.5).is_err()
                && Position::new(f64::NAN, 0.0).is_err()
        );
    }

    /// The same longitude, another way round.
    fn turned(longitude: f64) -> f64 {
        if longitude > 180.0 {
            longitude - 360.0
        } else if longitude < -180.0 {
            longitude + 360.0
        } else {
            longitude
        }
    }

    proptest! {
        #[test]
        fn it_makes_no_difference_where_on_earth_a_polygon_lies(
            corners in proptest::collection::vec((-60.0_f64..60.0, -40.0_f64..40.0), 3..9),
            place in (-60.0_f64..60.0, -60.0_f64..60.0),
            turn in -180.0_f64..180.0,
        ) {
            let here = polygon(&corners).unwrap();
            let moved: Vec<_> = corners.iter().map(|(latitude, longitude)| (*latitude, turned(longitude + turn))).collect();
            let there = polygon(&moved).unwrap();
            // On the border itself rounding decides; the nearest places are left out.
            let near = |by: f64| here.contains(at(place.0, place.1 + by));
            prop_assume!(near(0.0) == near(1e-6) && near(0.0) == near(-1e-6));
            prop_assert_eq!(here.contains(at(place.0, place.1)), there.contains(at(place.0, turned(place.1 + turn))));
        }

        #[test]
        fn no_corners_end_a_thread(corners in proptest::collection::vec((-90.0_f64..=90.0, -180.0_f64..=180.0), 0..8), place in (-90.0_f64..=90.0, -180.0_f64..=180.0)) {
            if let Ok(polygon) = polygon(&corners) {
                let _ = polygon.contains(at(place.0, place.1));
            }
        }
    }
}
