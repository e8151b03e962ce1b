//! PNG pictures as sixels, for terminals that have no other way.
//!
//! A band of sixels is six rows high. For each colour in it, one character says which of the six
//! pixels of a column have the colour:
//!
//! ```text
//! #5!3~-    colour 5: three columns with all six pixels; next band
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;

use zune_png::PngDecoder;
use zune_png::zune_core::bytestream::ZCursor;
use zune_png::zune_core::options::DecoderOptions;

/// Pixels in a row and in a column that are read; more would not fit into memory that is worth it.
const MAX_READ: usize = 4096;

/// Pixels in a row that are shown: what a terminal has.
const MAX_SHOWN: usize = 800;

/// Steps of red, green and blue. Terminals have 256 colours or more.
const STEPS: u8 = 6;

/// A picture in few colours.
struct IndexedPicture {
    width: usize,
    /// Row by row; none is transparent.
    pixels: Vec<Option<u8>>,
}

/// What makes a terminal show the picture; none if it cannot be read.
pub(super) fn sequence(png: &[u8]) -> Option<String> {
    IndexedPicture::read(png).map(|picture| picture.encoded())
}

impl IndexedPicture {
    fn read(png: &[u8]) -> Option<Self> {
        let options = DecoderOptions::default()
            .set_max_width(MAX_READ)
            .set_max_height(MAX_READ)
            .png_set_strip_to_8bit(true)
            .png_set_decode_animated(false);
        let mut decoder = PngDecoder::new_with_options(ZCursor::new(png), options);
        let bytes = decoder.decode_raw().ok()?;
        let (width, _) = decoder.dimensions()?;
        let each = decoder.colorspace()?.num_components();
        // Every so many pixels, in both directions.
        let step = width.div_ceil(MAX_SHOWN).max(1);
        let rows = bytes.chunks_exact((width * each).max(1)).step_by(step);
        let pixels = rows.flat_map(|row| row.chunks_exact(each).step_by(step).map(colour));
        Some(Self { width: width.div_ceil(step), pixels: pixels.collect() })
    }

    fn encoded(&self) -> String {
        let height = self.pixels.len() / self.width.max(1);
        // What is transparent stays as it is; pixels are as high as wide.
        let mut out = format!("\x1bP0;1;0q\"1;1;{};{height}", self.width);
        let used: BTreeSet<_> = self.pixels.iter().flatten().collect();
        for colour in used {
            let part = |divisor: u8| u32::from(colour / divisor % STEPS) * 100 / 5;
            let [red, green, blue] = [STEPS * STEPS, STEPS, 1].map(part);
            // Writing to a string does not fail.
            _ = write!(out, "#{colour};2;{red};{green};{blue}");
        }
        for band in self.pixels.chunks(self.width.max(1) * 6) {
            let colours: BTreeSet<_> = band.iter().flatten().collect();
            for colour in colours {
                _ = write!(out, "#{colour}");
                self.write_line(&mut out, band, *colour);
                out.push('$');
            }
            out.push('-');
        }
        out + "\x1b\\"
    }

    /// The pixels of one colour in a band, with the number of columns that are alike.
    fn write_line(&self, out: &mut String, band: &[Option<u8>], colour: u8) {
        let column = |x: usize| {
            let rows = band.chunks(self.width).enumerate();
            let bits = rows.map(|(row, pixels)| u8::from(pixels[x] == Some(colour)) << row);
            char::from(b'?' + bits.sum::<u8>())
        };
        let mut x = 0;
        while x < self.width {
            let sixel = column(x);
            let count = (x..self.width).take_while(|x| column(*x) == sixel).count();
            x += count;
            match count {
                1..=3 => out.extend(std::iter::repeat_n(sixel, count)),
                _ => _ = write!(out, "!{count}{sixel}"),
            }
        }
    }
}

/// The nearest of our colours; none if the pixel is more transparent than not.
fn colour(pixel: &[u8]) -> Option<u8> {
    let (parts, alpha) = match *pixel {
        [grey] => ([grey; 3], u8::MAX),
        [grey, alpha] => ([grey; 3], alpha),
        [red, green, blue] => ([red, green, blue], u8::MAX),
        [red, green, blue, alpha] => ([red, green, blue], alpha),
        _ => return None,
    };
    let [red, green, blue] = parts.map(|part| part.saturating_add(25) / 51);
    (alpha >= 128).then_some((red * STEPS + green) * STEPS + blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PNG of these rows of red, green, blue and alpha, not compressed.
    fn png(rows: &[&[[u8; 4]]]) -> Vec<u8> {
        let chunk = |kind: &[u8], data: &[u8]| {
            let length = u32::try_from(data.len()).unwrap().to_be_bytes();
            // The sum at the end is not looked at.
            [&length, kind, data, &[0; 4]].concat()
        };
        let size = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
        let head = [&size(rows[0].len())[..], &size(rows.len()), &[8, 6, 0, 0, 0]].concat();
        let lines = rows.iter().map(|row| [&[0][..], &row.concat()].concat());
        let data = lines.collect::<Vec<_>>().concat();
        let length = u16::try_from(data.len()).unwrap();
        let (mut low, mut high) = (1, 0);
        for byte in &data {
            low = (low + u32::from(*byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        let sum = (high << 16 | low).to_be_bytes();
        let stored = [&[0x78, 1, 1][..], &length.to_le_bytes(), &(!length).to_le_bytes()].concat();
        let body = [&stored, &data, &sum[..]].concat();
        let chunks = [chunk(b"IHDR", &head), chunk(b"IDAT", &body), chunk(b"IEND", &[])];
        [b"\x89PNG\r\n\x1a\n".to_vec(), chunks.concat()].concat()
    }

    const RED: [u8; 4] = [255, 0, 0, 255];
    const BLUE: [u8; 4] = [0, 0, 250, 255];
    const NONE: [u8; 4] = [255, 255, 255, 0];

    #[test]
    fn each_colour_of_a_band_has_its_pixels() {
        let shown = sequence(&png(&[&[RED, BLUE], &[NONE, BLUE]])).unwrap();
        let colours = "#5;2;0;0;100#180;2;100;0;0";
        assert_eq!(shown, format!("\x1bP0;1;0q\"1;1;2;2{colours}#5?B$#180@?$-\x1b\\"));
    }

    #[test]
    fn bands_have_six_rows_and_columns_that_are_alike_are_counted() {
        let row = &[RED; 9][..];
        let shown = sequence(&png(&[row; 7])).unwrap();
        assert!(shown.ends_with("#180!9~$-#180!9@$-\x1b\\"), "{shown:?}");
    }

    #[test]
    fn a_wide_picture_is_made_smaller() {
        let row = &[RED; 1601][..];
        let shown = sequence(&png(&[row; 4])).unwrap();
        assert!(shown.contains("\"1;1;534;2"), "{shown:.40}");
    }

    #[test]
    fn what_is_no_picture_is_not_shown() {
        let good = png(&[&[RED]]);
        assert_eq!(sequence(&good[..40]), None);
        assert_eq!(sequence(b"GIF89a"), None);
        let mut huge = good;
        huge[16..20].copy_from_slice(&1_000_000_u32.to_be_bytes());
        assert_eq!(sequence(&huge), None);
    }
}
