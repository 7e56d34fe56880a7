//! The E-model: transmission rating R and mean opinion score (metrics §18; ITU-T G.107, narrow band).

/// Method of computing the delay impairment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DelayModel {
    /// Absolute delay only (Idd), assuming perfect echo control.
    #[default]
    Idd,
    /// Talker and listener echo at the default TELR of 65 dB and WEPL of 110 dB (with R₀ = 93.36).
    Full,
    /// Approximation of Cole and Rosenbluth, valid up to about 300 ms; unsuitable for long-delay links.
    Cole,
}

impl DelayModel {
    /// Returns the impairment Id for a delay of `ta` ms from mouth to ear.
    pub fn impairment(self, ta: f64) -> f64 {
        let ta = ta.max(0.0);
        match self {
            DelayModel::Idd => idd(ta),
            DelayModel::Full => idte(ta) + idle(ta) + idd(ta),
            DelayModel::Cole => 0.024 * ta + 0.11 * (ta - 177.3).max(0.0),
        }
    }

    /// Returns the rating before impairments by delay and codec.
    pub fn base(self) -> f64 {
        if self == DelayModel::Full { 93.36 } else { 93.2 }
    }
}

fn idd(ta: f64) -> f64 {
    if ta <= 100.0 {
        return 0.0;
    }
    let x = (ta / 100.0).log2();
    let root = |y: f64| (1.0 + y.powi(6)).powf(1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// Basic signal-to-noise ratio Ro for the default values of ITU-T G.107.
const RO: f64 = 94.77;

/// Talker echo impairment.
fn idte(t: f64) -> f64 {
    if t < 1.0 {
        return 0.0;
    }
    let terv = 65.0 - 40.0 * ((1.0 + t / 10.0) / (1.0 + t / 150.0)).log10() + 6.0 * (-0.3 * t * t).exp();
    let re = 80.0 + 2.5 * (terv - 14.0);
    ((RO - re) / 2.0 + ((RO - re).powi(2) / 4.0 + 100.0).sqrt() - 1.0) * (1.0 - (-t).exp())
}

/// Listener echo impairment.
fn idle(t: f64) -> f64 {
    let rle = 10.5 * (110.0 + 7.0) * (2.0 * t + 1.0).powf(-0.25);
    (RO - rle) / 2.0 + ((RO - rle).powi(2) / 4.0 + 169.0).sqrt()
}

/// Returns the effective equipment impairment of a codec (Ie, Bpl) at `loss` (0…1) with burst ratio `burst`.
pub fn equipment(ie: f64, bpl: f64, loss: f64, burst: f64) -> f64 {
    let percent = 100.0 * loss;
    if percent > 0.0 { ie + (95.0 - ie) * percent / (percent / burst.max(1.0) + bpl) } else { ie }
}

/// Returns the mean opinion score of rating `r`.
pub fn mos(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings() {
        // metrics §18, V25. Columns: Ie, Bpl, Ta in ms, loss in percent, burst ratio, R, MOS.
        for (ie, bpl, ta, loss, burst, r, score) in [
            (0.0, 4.3, 0.0, 0.0, 1.0, 93.2, 4.409286),
            (0.0, 4.3, 150.0, 0.0, 1.0, 93.036469, 4.406098),
            (0.0, 4.3, 177.3, 0.0, 1.0, 92.027942, 4.385460),
            (0.0, 4.3, 250.0, 0.0, 1.0, 84.283290, 4.175084),
            (0.0, 4.3, 400.0, 0.0, 1.0, 69.129911, 3.555932),
            (0.0, 4.3, 50.0, 1.0, 1.0, 75.275472, 3.833651),
            (0.0, 25.1, 50.0, 1.0, 1.0, 89.560153, 4.328075),
            (0.0, 25.1, 50.0, 1.0, 2.0, 89.489063, 4.326282),
            (0.0, 25.1, 150.0, 5.0, 1.5, 76.330724, 3.878108),
            (11.0, 19.0, 120.0, 2.0, 1.0, 74.198626, 3.787227),
            (11.0, 19.0, 1640.0, 0.0, 1.0, 34.852649, 1.820153),
        ] {
            let rating = DelayModel::Idd.base()
                - DelayModel::Idd.impairment(ta)
                - equipment(ie, bpl, loss / 100.0, burst);
            assert!((rating - r).abs() < 1e-6 && (mos(rating) - score).abs() < 1e-6, "{ta} {loss}: {rating}");
        }
    }

    #[test]
    fn delay_models() {
        for (ta, a, b, c) in
            [(150.0, 0.1635, 3.8163, 3.6), (400.0, 24.07, 31.11, 34.10), (1640.0, 47.35, 59.46, 200.26)]
        {
            let id = [DelayModel::Idd, DelayModel::Full, DelayModel::Cole].map(|m| m.impairment(ta));
            assert!(
                (id[0] - a).abs() < 6e-3 && (id[1] - b).abs() < 6e-3 && (id[2] - c).abs() < 6e-3,
                "{id:?}"
            );
        }
        assert!((DelayModel::Full.impairment(0.0) - 0.149).abs() < 1e-3);
    }

    #[test]
    fn scores_stay_on_the_scale() {
        assert_eq!((mos(-5.0), mos(0.0), mos(3.0), mos(100.0)), (1.0, 1.0, 1.0, 4.5));
    }

    #[test]
    fn echo_at_short_delays() {
        // Reference values from an independent Python implementation of G.107. Below 1 ms there is no talker
        // echo; just above, its other terms show.
        for (ta, id) in [
            (0.999, 0.201_419_422_824_528_74),
            (1.0, 0.092_531_432_681_042_94),
            (2.0, 0.148_124_869_281_066_72),
            (20.0, 0.823_933_697_119_586_7),
        ] {
            assert!((DelayModel::Full.impairment(ta) - id).abs() < 1e-12, "{ta}");
        }
        assert_eq!(equipment(11.0, 0.0, 0.0, 1.0), 11.0);
    }
}
