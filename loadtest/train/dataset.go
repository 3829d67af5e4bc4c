package train

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Shape of the data: 8 x 8 pixels of 0 to 16, and ten digits.
const (
	Pixels   = 64
	Classes  = 10
	maxPixel = 16
	// testRows of the 1,797 are kept from training.
	testRows = 360
)

//go:embed data/digits.csv.gz
var digits []byte

// Row is one picture and what it shows.
type Row struct {
	Pixels [Pixels]float32 // 0 to 1
	Label  int             // 0 to 9
}

// Dataset is the digits, split once and for all: every process that loads it has the same rows in the same order.
type Dataset struct {
	Train, Test []Row
}

// Load decodes the data set that the binary carries (data/README.md says where it comes from).
func Load() (*Dataset, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(digits))
	if err != nil {
		return nil, fmt.Errorf("digits: %w", err)
	}
	reader := csv.NewReader(zipped)
	reader.FieldsPerRecord = Pixels + 1
	records, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("digits: %w", err)
	}
	if len(records) <= testRows {
		return nil, fmt.Errorf("digits: %d rows, more than %d are needed", len(records), testRows)
	}
	rows := make([]Row, len(records))
	for i, record := range records {
		if rows[i], err = parse(record); err != nil {
			return nil, fmt.Errorf("digits: row %d: %w", i+1, err)
		}
	}
	// Mixed first, so that the test rows are no matter of the order in which the file was collected.
	rand.New(rand.NewPCG(1998, 0)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return &Dataset{Train: rows[testRows:], Test: rows[:testRows]}, nil
}

func parse(record []string) (Row, error) {
	var row Row
	for i, field := range record {
		value, err := strconv.Atoi(field)
		if err != nil {
			return Row{}, err
		}
		if i == Pixels {
			if value < 0 || value >= Classes {
				return Row{}, fmt.Errorf("label %d is no digit", value)
			}
			row.Label = value
			break
		}
		if value < 0 || value > maxPixel {
			return Row{}, fmt.Errorf("pixel %d is %d, the range is 0 to %d", i, value, maxPixel)
		}
		row.Pixels[i] = float32(value) / maxPixel
	}
	return row, nil
}

// Digits is the data set as it is stored: CSV, compressed with gzip (data/README.md).
func Digits() []byte { return bytes.Clone(digits) }
