//! Places on the earth and how far apart they are.

use crate::number::NumberError;

/// Mean radius of the earth, km (IUGG).
const EARTH_RADIUS_KM: f64 = 6371.0088;

/// A place on the earth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Location {
    latitude: f64,
    longitude: f64,
}

impl Location {
    /// A place by its latitude (-90 to 90) and longitude (-180 to 180), degrees.
    ///
    /// # Errors
    /// When either is outside.
    pub fn new(latitude: f64, longitude: f64) -> Result<Self, NumberError> {
        if !(-90.0..=90.0).contains(&latitude) {
            return Err(NumberError::Latitude(latitude));
        }
        if !(-180.0..=180.0).contains(&longitude) {
            return Err(NumberError::Longitude(longitude));
        }
        Ok(Self { latitude, longitude })
    }

    /// Degrees north of the equator.
    pub fn latitude(self) -> f64 {
        self.latitude
    }

    /// Degrees east of Greenwich.
    pub fn longitude(self) -> f64 {
        self.longitude
    }

    /// The great-circle distance, km. The error is up to 0.5 %, since the earth is taken for a sphere.
    pub fn distance_km(self, other: Self) -> f64 {
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let north = ((to - from) / 2.0).sin().powi(2);
        let east = ((other.longitude - self.longitude).to_radians() / 2.0).sin().powi(2);
        let haversine = north + from.cos() * to.cos() * east;
        2.0 * EARTH_RADIUS_KM * haversine.clamp(0.0, 1.0).sqrt().asin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(latitude: f64, longitude: f64) -> Location {
        Location::new(latitude, longitude).unwrap()
    }

    #[test]
    fn distances_agree_with_an_atlas() {
        let (rome, berlin) = (at(41.9028, 12.4964), at(52.5200, 13.4050));
        assert!((rome.distance_km(berlin) - 1184.0).abs() < 5.0, "{}", rome.distance_km(berlin));
        assert!(rome.distance_km(rome) < 0.001);
        // Over the date line, it is near.
        assert!(at(0.0, 179.5).distance_km(at(0.0, -179.5)) < 112.0);
        // From pole to pole it is half of the way around.
        assert!((at(90.0, 0.0).distance_km(at(-90.0, 0.0)) - 20_015.0).abs() < 1.0);
    }

    #[test]
    fn coordinates_off_the_earth_are_refused() {
        assert!(Location::new(90.1, 0.0).is_err());
        assert!(Location::new(0.0, -180.1).is_err());
        assert!(Location::new(f64::NAN, 0.0).is_err());
        assert!(Location::new(0.0, f64::INFINITY).is_err());
    }
}
