package executor_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/executor"
)

// slow is a task whose pieces take a time, so that several threads take some.
type slow struct{ done atomic.Int64 }

func (s *slow) Range(lo, hi int) {
	time.Sleep(time.Millisecond)
	s.done.Add(int64(hi - lo))
}

// TestWatchedPool: of every loop, each thread but the caller's that took part is told of once, within
// the time of the loop and before Run returns.
func TestWatchedPool(t *testing.T) {
	pool := executor.NewPool(3)
	defer pool.Close()
	times := map[int]int{}
	var begin time.Time
	pool.Watch(func(thread int, start time.Time, took time.Duration) {
		times[thread]++
		require.False(t, start.Before(begin))
		require.LessOrEqual(t, start.Add(took).Sub(begin), time.Since(begin))
		require.Positive(t, took)
	})
	for _, c := range []struct {
		items, grain int
		want         map[int]int
	}{{30, 1, map[int]int{1: 1, 2: 1}}, {2, 1, map[int]int{1: 1}}, {1, 1, map[int]int{}}, {8, 8, map[int]int{}}} {
		clear(times)
		var task slow
		begin = time.Now()
		pool.Run(c.items, c.grain, &task)
		require.EqualValues(t, c.items, task.done.Load())
		require.Equal(t, c.want, times, "%d items", c.items)
	}
}
