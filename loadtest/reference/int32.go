package reference

import (
	"fmt"

	"spillway/wire"
)

// ReduceInt32 is the int32 collective of one contribution a rank, of equal
// lengths. Saturated reports that some exact sum leaves the int32 range, for which the
// protocol fails the collective; the values are then of no use.
func ReduceInt32(contributions [][]int32, op wire.Op) (result []int32, saturated bool, err error) {
	n, err := length(contributions)
	if err != nil {
		return nil, false, err
	}
	if op > wire.Min {
		return nil, false, fmt.Errorf("unknown operation %v", op)
	}
	result = make([]int32, n)
	for i := range result {
		total := int64(contributions[0][i])
		for _, contribution := range contributions[1:] {
			x := int64(contribution[i])
			switch op {
			case wire.Sum:
				total += x
			case wire.Max:
				total = max(total, x)
			case wire.Min:
				total = min(total, x)
			}
		}
		result[i] = int32(total)
		saturated = saturated || int64(result[i]) != total
	}
	return result, saturated, nil
}
